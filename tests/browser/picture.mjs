// Writes a picture of the matrix of an HTML report: node picture.mjs PAGE.html PICTURE.png
import { resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch } from './chromium.mjs';

const [page, picture] = process.argv.slice(2);
const browser = await launch();
try {
  const tab = await browser.newPage({ viewport: { width: 1280, height: 900 }, colorScheme: 'light' });
  await tab.goto(pathToFileURL(resolve(page)).href);
  await tab.locator('.overview table.heat').screenshot({ path: picture });
} finally {
  await browser.close();
}
