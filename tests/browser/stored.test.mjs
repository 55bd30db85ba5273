// The pages of the testkit's stored runs, of two runs and of two machines that are compared: on a phone, on a desk, dark,
// and on paper.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readdirSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './chromium.mjs';
import { brokenWords, contrasts, cwd, pagesOf, unfold } from './looks.mjs';

const scratch = mkdtempSync(join(tmpdir(), 'layermark-stored-'));
const PHONE = { width: 375, height: 812 };
const DESK = { width: 1280, height: 800 };
const PAPER = { width: 703, height: 900 };
let browser;
let pages;

before(async () => {
  execFileSync('cargo', ['run', '--quiet', '--locked', '--example', 'sample', '--', 'fixtures', scratch], { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  pages = readdirSync(scratch).filter((name) => name.endsWith('.html'));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(scratch, { recursive: true, force: true });
});

// The end of a part on the screen; undefined if the page has none.
const end = (page, part) => page.evaluate((part) => document.querySelector(part)?.getBoundingClientRect().bottom, part);

test('every stored run has a page, and so have two runs and two machines', () => {
  assert.ok(pages.length >= 40, `${pages.length} pages`);
  for (const name of ['quiet', 'busy', 'daily', 'durability', 'compared', 'machines']) assert.ok(pages.includes(`${name}.html`), name);
});

// How far a page scrolls sideways.
async function wide(page) {
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  return inner > outer ? [`${inner} > ${outer} px`] : [];
}

async function screen(page, viewport) {
  await page.setViewportSize(viewport);
  const said = (await page.evaluate(brokenWords)).map((word) => `broken: ${word}`);
  const short = await end(page, '.in-short li');
  if (short !== undefined) {
    lines += 1;
    if (short > viewport.height) said.push(`the first line of a layer ends at ${short} px`);
    const before = await page.evaluate(() => {
      const [line, matrix] = ['.in-short', '.overview .heat tbody th'].map((part) => document.querySelector(part));
      return !matrix || line.getBoundingClientRect().bottom <= matrix.getBoundingClientRect().top;
    });
    if (!before) said.push('the matrix comes before the lines of layers');
  }
  const title = await end(page, 'h1');
  if (title > 0.6 * viewport.height) said.push(`the headline ends at ${title} px`);
  return [...said, ...await wide(page)];
}

async function dark(page) {
  await page.emulateMedia({ colorScheme: 'dark' });
  const { poor, background } = await page.evaluate(contrasts);
  return background < 0.1 ? poor : [...poor, `background ${background}`];
}

// In dark colours, as it was left.
async function printed(page) {
  await page.setViewportSize(PAPER);
  await page.emulateMedia({ media: 'print', colorScheme: 'dark' });
  const sheets = await pagesOf(page);
  const said = sheets > 2 ? [`${sheets} sheets`] : [];
  for (const part of ['h1', '.in-short li', '.overview table', '.claims table', '.findings li']) {
    const first = page.locator(part).first();
    if (await page.locator(part).count() > 0 && !await first.isVisible()) said.push(`${part} is not printed`);
  }
  const edge = await page.evaluate(() => Math.max(0, ...[...document.querySelectorAll('main table')]
    .filter((table) => table.checkVisibility()).map((table) => table.getBoundingClientRect().right - document.documentElement.clientWidth)));
  if (edge > 1) said.push(`a table ends ${edge} px beyond the paper`);
  return said;
}

async function printedOpen(page, name) {
  await page.setViewportSize(DESK);
  await page.emulateMedia({ media: 'print', colorScheme: 'light' });
  const shown = (part) => page.evaluate((part) => document.querySelector(part)?.checkVisibility() ?? false, part);
  const said = [];
  for (const part of name === 'compared.html' ? ['#section-gates', '#section-both-runs'] : []) {
    if (!await shown(part)) said.push(`not on paper: ${part}`);
  }
  const hidden = await page.evaluate(() => {
    const inside = [...document.querySelectorAll('.later details')].filter((d) => !d.closest('.folds, figure, .raw'));
    const visible = inside.filter((d) => d.checkVisibility()).length;
    inside.forEach((d) => { d.open = true; });
    const closed = inside.filter((d) => !d.checkVisibility()).map((d) => d.querySelector('summary').textContent);
    return { all: inside.length, visible, closed };
  });
  opened += hidden.all;
  if (hidden.visible > 0) said.push(`${hidden.visible} parts that nobody opened are on paper`);
  return [...said, ...hidden.closed.map((title) => `opened, and not on paper: ${title}`)];
}

async function unfolded(page) {
  await page.emulateMedia({ media: 'screen' });
  await unfold(page);
  const said = [];
  for (const viewport of [DESK, PHONE]) {
    await page.setViewportSize(viewport);
    said.push(...await wide(page));
  }
  return said;
}

// What is wrong with a page, in this order: what is opened stays so.
const LOOKS = {
  'at 375 px no page scrolls sideways or breaks a word, and the lines of layers are on the first screen': (page) => screen(page, PHONE),
  'at 1280 px no page scrolls sideways or breaks a word, and the lines of layers are on the first screen': (page) => screen(page, DESK),
  'every word of every page can be read in the dark': dark,
  'every page is printed on at most two sheets, with its answer': printed,
  'what was opened inside a part that paper leaves out is printed, and a comparison has its gates and both runs': printedOpen,
  'no page scrolls sideways with all its parts opened': unfolded,
};
let lines = 0;
let opened = 0;

// Each page is opened once, which takes most of the time.
const found = Object.fromEntries(Object.keys(LOOKS).map((what) => [what, {}]));
test('every page is looked at', { timeout: 900_000 }, async () => {
  for (const name of pages) {
    const context = await browser.newContext({ offline: true, viewport: PHONE });
    const page = await context.newPage();
    await page.goto(pathToFileURL(join(scratch, name)).href, { timeout: 300_000 });
    for (const [what, look] of Object.entries(LOOKS)) {
      const said = await look(page, name);
      if (said.length > 0) found[what][name] = said;
    }
    await context.close();
  }
  assert.ok(lines > 40, `${lines} times a page with lines of layers`);
  assert.ok(opened > 5, `${opened} were opened`);
});

for (const what of Object.keys(LOOKS)) test(what, () => assert.deepEqual(found[what], {}));
