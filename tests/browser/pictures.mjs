// Pictures of a page for the docs: node pictures.mjs PAGE DIRECTORY
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import { launch } from './chromium.mjs';

const [page, directory] = process.argv.slice(2);
const browser = await launch();
for (const [width, height] of [[375, 812], [1280, 800]]) {
  const context = await browser.newContext({ offline: true, viewport: { width, height }, colorScheme: 'light' });
  const tab = await context.newPage();
  await tab.goto(pathToFileURL(page).href);
  await tab.screenshot({ path: join(directory, `page-${width}.png`) });
  await context.close();
}
await browser.close();
