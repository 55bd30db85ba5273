# Homebrew on Linux. Made by `make dist`, which fills in the version, the address and the sums.
class Layermark < Formula
  desc "@ABOUT@"
  homepage "@URL@"
  version "@VERSION@"
  license any_of: ["MIT", "Apache-2.0"]

  depends_on :linux

  # @x86_64 begin
  on_intel do
    url "@URL@/layermark-@VERSION@-x86_64-linux.tar.gz"
    sha256 "@SHA256_x86_64@"
  end
  # @x86_64 end
  # @aarch64 begin
  on_arm do
    url "@URL@/layermark-@VERSION@-aarch64-linux.tar.gz"
    sha256 "@SHA256_aarch64@"
  end
  # @aarch64 end

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
