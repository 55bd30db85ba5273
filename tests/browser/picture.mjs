// Writes a picture of the matrix of an HTML report: node picture.mjs PAGE.html PICTURE.png
// CHROMIUM names the browser (default: Debian's).
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { chromium } from 'playwright-core';

const [page, picture] = process.argv.slice(2);
const browser = await chromium.launch({
  executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium',
  args: process.getuid() === 0 ? ['--disable-gpu', '--no-sandbox'] : ['--disable-gpu'],
});
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
  await tab.goto(pathToFileURL(resolve(page)).href);
  await tab.locator('.overview table.heat').screenshot({ path: picture });
} finally {
  await browser.close();
}
