# Homebrew on Linux. Made by `make dist`, which fills in the version, the address and the sum.
class Layermark < Formula
  desc "@ABOUT@"
  homepage "@URL@"
  url "@URL@/@NAME@.tar.gz"
  version "@VERSION@"
  sha256 "@SHA256@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux
  depends_on arch: :@ARCH@

  def install
    bin.install "bin/layermark"
    man1.install Dir["share/man/man1/*"]
    bash_completion.install "share/bash-completion/completions/layermark"
    zsh_completion.install "share/zsh/site-functions/_layermark"
    fish_completion.install "share/fish/vendor_completions.d/layermark.fish"
    doc.install Dir["share/doc/layermark/*"]
  end

  test do
    assert_match version.to_s, shell_output("#{bin}/layermark --version")
  end
end
