// The browser that pages are opened in. CHROMIUM names it (default: Debian's).
import { chromium } from 'playwright-core';

export function launch() {
  const quiet = ['--disable-gpu', '--disable-quic', '--no-first-run', '--disable-background-networking',
    '--disable-component-update', '--disable-sync'];
  return chromium.launch({
    timeout: 300_000,
    executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
    args: process.getuid() === 0 ? [...quiet, '--no-sandbox'] : quiet,
  });
}
