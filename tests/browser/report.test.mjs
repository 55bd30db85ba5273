// Opens an HTML report in Chromium, offline, and checks what a reader needs of it.
// LAYERMARK_REPORT names the file; without it the report of a made-up run is generated.
import { execFileSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import { pathToFileURL } from 'node:url';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './chromium.mjs';
import { brokenWords, contrasts, cwd, pagesOf, unfold } from './looks.mjs';

const scratch = mkdtempSync(join(tmpdir(), 'layermark-browser-'));
let browser;
let path;
let url;

function report() {
  if (process.env.LAYERMARK_REPORT) return resolve(process.env.LAYERMARK_REPORT);
  return sample();
}

// A report of made-up figures; `card` has the size of the default plan's, `matrix` is one over file
// sizes and records, `study` the same of a plan that repeats a study.
function sample(...kind) {
  const made = join(scratch, `sample${kind}.html`);
  const args = ['run', '--quiet', '--locked', '--example', 'sample', '--', ...kind, made];
  execFileSync('cargo', args, { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  return made;
}

before(async () => {
  path = report();
  url = pathToFileURL(path).href;
  browser = await launch();
});

after(async () => {
  await browser?.close();
  rmSync(scratch, { recursive: true, force: true });
});

const made = {};
const card = () => (made.card ??= pathToFileURL(sample('card')).href);
const study = () => (made.study ??= pathToFileURL(sample('study')).href);

// A page in a context of its own; whatever it asks for or complains about is kept.
async function open(options = {}, at = url) {
  const context = await browser.newContext({ offline: true, viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  const seen = { requests: [], complaints: [] };
  page.on('request', (r) => seen.requests.push(r.url()));
  page.on('console', (m) => seen.complaints.push(m.text()));
  page.on('pageerror', (e) => seen.complaints.push(String(e)));
  await page.goto(at, { timeout: 300_000 });
  return { page, seen, close: () => context.close() };
}

test('asks for nothing but itself and complains about nothing', async () => {
  const { page, seen, close } = await open();
  await page.getByText('Data of this chart').first().click();
  await page.waitForLoadState('networkidle');
  assert.deepEqual(seen.requests, [url]);
  assert.deepEqual(seen.complaints, []);
  await close();
});

test('its policy forbids every request and script', async () => {
  const { page, close } = await open();
  const policy = await page.locator('meta[http-equiv="Content-Security-Policy"]').getAttribute('content');
  assert.match(policy, /default-src 'none'/);
  assert.doesNotMatch(policy, /script-src|https?:/);
  assert.equal(await page.locator('script').count(), 0);
  await close();
});

test('the verdict is the only first-level heading and comes first', async () => {
  const { page, close } = await open();
  const headings = page.getByRole('heading', { level: 1 });
  assert.equal(await headings.count(), 1);
  const verdict = (await headings.first().innerText()).trim();
  assert.ok(verdict.length > 20 && verdict.endsWith('.'), verdict);
  const first = await page.evaluate(() => document.querySelector('h1, h2, h3').tagName);
  assert.equal(first, 'H1');
  await close();
});

test('the matrix stands before everything else and every cell has words and a row', async () => {
  const { page, close } = await open({}, card());
  const { first, cells, rows } = await page.evaluate(() => {
    // The baseline's column is for times and throughput.
    const table = document.querySelector('main table');
    for (const cell of table.querySelectorAll('.base')) cell.remove();
    const title = document.querySelector('h1');
    const others = [...document.querySelectorAll('main h2, main p:not(.believe), main ul:not(.in-short), main svg')];
    const after = (e) => table.compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING;
    return {
      first: title.compareDocumentPosition(table) & Node.DOCUMENT_POSITION_FOLLOWING && others.every(after),
      rows: [...table.rows].map((r) => [...r.cells].map((c) => c.tagName + (c.scope ? `.${c.scope}` : '')).join(' ')),
      cells: [...table.querySelectorAll('td')].map((c) => {
        const link = c.querySelector('a')?.getAttribute('href');
        const places = link && document.querySelectorAll(`[id="${link.slice(1)}"]`).length;
        return { words: c.querySelector('.unseen')?.textContent ?? '', link, places };
      }),
    };
  });
  assert.ok(first, 'nothing but the headline, whether to believe it and a line a layer stands before the matrix');
  assert.match(rows[0], /^(TH\.col ?)+$/);
  for (const row of rows.slice(1)) assert.match(row, /^TH\.row( TD)+$/);
  assert.equal(cells.length, 12 * 10);
  for (const { words, link, places } of cells) {
    assert.match(words, /^(same|slower|faster|probably slower|probably faster|too noisy|too few repeats|not trusted|not measured)/);
    assert.ok(link === undefined || places === 1, `${link} leads somewhere`);
  }
  await close();
});

test('a study answers with its claims and its charts, then with the matrix of ratios', async () => {
  const { page, close } = await open({}, study());
  const order = await page.evaluate(() => ['.claims table', 'svg.chart', '.heat', '.results']
    .map((s) => document.querySelector(s)).map((e, n, all) => n === 0
      || Boolean(all[n - 1].compareDocumentPosition(e) & Node.DOCUMENT_POSITION_FOLLOWING)));
  assert.deepEqual(order, [true, true, true, true]);
  const cells = await page.locator('.claims td').evaluateAll((all) => all.map((c) => c.textContent));
  assert.ok(cells.length > 5);
  for (const words of cells) assert.match(words, /^(yes|no|cannot be decided|not asked)$/);
  for (const link of await page.locator('.claims td a').evaluateAll((all) => all.map((a) => a.getAttribute('href')))) {
    assert.equal(await page.locator(`[id="${link.slice(1)}"]`).count(), 1, link);
  }
  await close();
});

test('on a phone the findings stand above the cells that they are about, below a card for each layer', async () => {
  const { page, close } = await open({ viewport: { width: 375, height: 812 } }, card());
  const top = async (part) => (await page.locator(part).first().boundingBox()).y;
  const tops = await Promise.all(['h1', '.in-short li', '.findings li', '.overview td:not(.base)', '.folds'].map(top));
  assert.deepEqual(tops, tops.toSorted((a, b) => a - b));
  await close();
});

test('on a phone no word of the answer is broken, and what was not measured is counted', async () => {
  for (const at of [card(), study(), url]) {
    const { page, close } = await open({ viewport: { width: 375, height: 812 } }, at);
    const broken = await page.evaluate(brokenWords);
    assert.deepEqual(broken, []);
    const empty = await page.locator('.overview td:not(.base):visible').evaluateAll((all) => all
      .filter((td) => td.querySelector('[aria-hidden]')?.innerText.trim() === '-').length);
    assert.equal(empty, 0, 'cells without a number');
    await close();
  }
});

test('a time without a flush is hatched', async () => {
  const { page, close } = await open({}, card());
  const images = await page.locator('.overview td.hatched').evaluateAll((all) => all.map((td) => getComputedStyle(td).backgroundImage));
  assert.ok(images.length > 0 && images.every((image) => image.includes('repeating-linear-gradient')), images.join());
  await close();
});

test('a link of the matrix opens the folded results at its row', async () => {
  const { page, close } = await open({}, card());
  const link = page.locator('.overview td:not(.base) a').first();
  const row = page.locator(await link.getAttribute('href'));
  assert.ok(!await row.isVisible(), 'results are folded');
  await link.click();
  await row.waitFor({ state: 'visible' });
  await close();
});

for (const [width, height] of [[1280, 800], [375, 812]]) {
  test(`is at most eight screens long at ${width}x${height}, with a short headline`, async () => {
    for (const at of [card(), study(), url]) {
      const { page, close } = await open({ viewport: { width, height } }, at);
      const { all, chart, words } = await page.evaluate(() => ({
        all: document.documentElement.scrollHeight,
        chart: document.querySelector('svg.chart').getBoundingClientRect().top,
        words: document.querySelector('h1').innerText.trim().split(/\s+/).length,
      }));
      assert.ok(all <= 8 * height, `${all} px are ${(all / height).toFixed(1)} screens`);
      assert.ok(width < 1000 || chart <= 1.5 * height, `the first chart is at ${chart} px`);
      assert.ok(words <= 24, `${words} words in the headline`);
      await close();
    }
  });
}

test('the first screen has headline, trust, matrix, legend, layers and the first findings', async () => {
  const { page, close } = await open({ viewport: { width: 1280, height: 800 } }, card());
  const parts = ['h1', '.believe', '.in-short li:last-child', '.overview .heat tbody tr:last-child', '.overview caption', '.ramp', '.explained', '.findings li'];
  for (const part of parts) {
    const { y, height } = await page.locator(part).first().boundingBox();
    assert.ok(y + height <= 800, `${part} ends at ${y + height} px`);
  }
  // The switch is on the line about trust and covers none of it.
  const trust = page.locator('.believe a');
  await trust.click();
  assert.equal(new URL(page.url()).hash, '#trust');
  const heads = await page.locator('.overview thead th[title]').evaluateAll((all) => all.map((th) => th.title));
  assert.ok(heads.length >= 10 && heads.every((title) => title.includes(': made-up layer')), heads.join());
  await close();
});

test('on a phone the layers of a claim stand below it with their names', async () => {
  const { page, close } = await open({ viewport: { width: 375, height: 812 } }, study());
  const { inner, outer, cells } = await page.locator('.claims').first().evaluate((frame) => ({
    inner: frame.scrollWidth,
    outer: frame.clientWidth,
    cells: [...frame.querySelectorAll('td')].map((td) => getComputedStyle(td, '::before').content),
  }));
  assert.ok(inner <= outer, `${inner} > ${outer}`);
  assert.ok(cells.length > 5 && cells.every((name) => name.length > 2 && name !== 'none'), cells.join());
  await close();
});

for (const [kind, report] of [['a study', study], ['a card', card]]) {
  test(`on a phone each row of a wide table of ${kind} stands as a block with the names of its columns`, async () => {
    const { page, close } = await open({ viewport: { width: 375, height: 812 } }, report());
    await unfold(page);
    const tables = await page.locator('.wide').evaluateAll((frames) => frames.map((frame) => ({
      title: frame.getAttribute('aria-label'),
      over: frame.scrollWidth - frame.clientWidth,
      names: [...frame.querySelectorAll('td:not(:first-child):not(:empty)')].map((td) => getComputedStyle(td, '::before').content),
    })));
    for (const title of ['What measuring costs', 'Every trial']) {
      assert.ok(tables.some((table) => table.title === title), title);
    }
    for (const { title, over, names } of tables) {
      assert.ok(over <= 0, `${title}: ${over} px more than its frame`);
      assert.ok(names.every((name) => name.length > 2 && name !== 'none'), `${title}: ${names}`);
    }
    await close();
  });
}

test('rows of results are low, and cards on a phone', async () => {
  const wide = await open({ viewport: { width: 1280, height: 800 } }, card());
  const opened = (page) => page.evaluate(() => { document.querySelector('#results').open = true; });
  await opened(wide.page);
  const heights = await wide.page.locator('table.results tr[id]').evaluateAll((rows) => rows.map((r) => r.getBoundingClientRect().height));
  assert.ok(heights.length > 100 && Math.max(...heights) < 60, `a row of ${Math.max(...heights)} px`);
  await wide.close();
  const { page, close } = await open({ viewport: { width: 375, height: 812 } }, card());
  await opened(page);
  const row = page.locator('table.results tr[id]').nth(2);
  const cells = await row.locator('td').evaluateAll((all) => all.filter((c) => c.textContent).map((c) => [c.dataset.head, c.getBoundingClientRect().left]));
  assert.equal(new Set(cells.map(([, left]) => left)).size, 1, 'cells stand one under another');
  assert.ok(cells.every(([head]) => head), 'each has its name');
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(inner <= outer, `${inner} > ${outer}`);
  await close();
});

test('headings leave out no level', async () => {
  const { page, close } = await open();
  const levels = await page.evaluate(() => [...document.querySelectorAll('h1,h2,h3,h4')].map((h) => Number(h.tagName[1])));
  levels.reduce((last, level) => {
    assert.ok(level <= last + 1, `h${level} after h${last}`);
    return level;
  }, 0);
  await close();
});

test('every chart is reached by its name and has its data', async () => {
  const { page, close } = await open();
  await page.evaluate(() => document.querySelectorAll('details:not(figure details)').forEach((d) => { d.open = true; }));
  const names = await page.locator('figure > figcaption').allInnerTexts();
  assert.ok(names.length >= 1, 'there are charts');
  assert.equal(new Set(names).size, names.length, 'names differ');
  for (const name of names) {
    const chart = page.getByRole('img', { name, exact: true });
    assert.equal(await chart.count(), 1, name);
    const box = await chart.boundingBox();
    assert.ok(box.width > 200 && box.height > 80, `${name}: ${JSON.stringify(box)}`);
  }
  const data = page.getByText('Data of this chart');
  assert.equal(await data.count(), names.length);
  await data.first().click();
  assert.ok(await page.locator('figure table').first().locator('tbody tr').first().isVisible());
  await close();
});

test('labels of charts stay inside and do not run into each other', async () => {
  const { page, close } = await open();
  await unfold(page);
  const wrong = await page.evaluate(() => {
    const found = [];
    for (const svg of document.querySelectorAll('svg.chart')) {
      const frame = svg.getBoundingClientRect();
      const boxes = [...svg.querySelectorAll('text')].map((t) => [t.textContent, t.getBoundingClientRect()]);
      boxes.forEach(([text, b], i) => {
        if (b.left < frame.left - 1 || b.right > frame.right + 1 || b.bottom > frame.bottom + 1) found.push(`outside: ${text}`);
        for (const [other, o] of boxes.slice(i + 1)) {
          const over = Math.min(b.right, o.right) - Math.max(b.left, o.left) > 1 && Math.min(b.bottom, o.bottom) - Math.max(b.top, o.top) > 3;
          if (over) found.push(`${text} on ${other}`);
        }
      });
    }
    return found;
  });
  assert.deepEqual(wrong, []);
  await close();
});

test('says everything with JavaScript switched off', async () => {
  const { page, close } = await open({ javaScriptEnabled: false });
  assert.ok(await page.getByRole('heading', { level: 1 }).isVisible());
  assert.ok(await page.locator('.overview table').isVisible());
  for (const name of ['Results', 'Can it be trusted?', 'Method', 'Machine and layers', 'Make this run again']) {
    const summary = page.locator('summary', { has: page.getByRole('heading', { name, exact: true }) });
    assert.ok(await summary.isVisible(), name);
    await summary.click();
  }
  assert.ok(await page.locator('table.results tbody tr').first().isVisible());
  assert.ok(await page.locator('svg.chart').first().isVisible());
  await close();
});

test('fits a phone without scrolling sideways', async () => {
  const { page, close } = await open({ viewport: { width: 375, height: 700 } });
  await unfold(page);
  const [inner, outer] = await page.evaluate(() => [document.documentElement.scrollWidth, window.innerWidth]);
  assert.ok(inner <= outer, `${inner} > ${outer}`);
  const smallest = await page.evaluate(() => Math.min(...[...document.querySelectorAll('svg.chart')].map((s) => {
    const scale = s.getBoundingClientRect().width / s.viewBox.baseVal.width;
    return Math.min(...[...s.querySelectorAll('text')].map((t) => scale * parseFloat(getComputedStyle(t).fontSize)));
  })));
  assert.ok(smallest >= 8, `letters of ${smallest.toFixed(1)} px in a chart`);
  await close();
});

test('the table scrolls by keyboard and keeps its heads in sight', async () => {
  const { page, close } = await open({ viewport: { width: 800, height: 700 } });
  await unfold(page);
  const region = page.getByRole('region', { name: 'Results, scrolls sideways' });
  await region.focus();
  assert.ok(await region.evaluate((e) => e === document.activeElement));
  await region.evaluate((e) => { e.scrollTop = 400; e.scrollLeft = 200; });
  const [head, name, frame] = await region.evaluate((e) => [
    e.querySelector('thead th').getBoundingClientRect().top,
    e.querySelector('tbody th.name').getBoundingClientRect().left,
    e.getBoundingClientRect(),
  ]);
  const scrolled = await region.evaluate((e) => e.scrollTop);
  assert.ok(scrolled === 0 || Math.abs(head - frame.top) < 3, `head at ${head}, frame at ${frame.top}`);
  assert.ok(Math.abs(name - frame.left) < 3, `first column at ${name}, frame at ${frame.left}`);
  await close();
});

for (const colorScheme of ['light', 'dark']) {
  test(`every word can be read in the ${colorScheme} scheme`, async () => {
    const { page, close } = await open({ colorScheme });
    await unfold(page);
    const { poor, background } = await page.evaluate(contrasts);
    assert.deepEqual(poor, []);
    assert.ok(colorScheme === 'dark' ? background < 0.1 : background > 0.8, `background ${background}`);
    await close();
  });
}

test('prints the first screen, findings and matrix on two pages, dark or not, and the rest on request', async () => {
  {
    const { page, close } = await open({ colorScheme: 'dark', viewport: { width: 703, height: 900 } }, card());
    await page.emulateMedia({ media: 'print' });
    for (const part of ['h1', '.in-short li', '.overview table', '.findings li', '.on-paper']) {
      assert.ok(await page.locator(part).first().isVisible(), part);
    }
    assert.equal(await page.locator('.fold:visible').count(), 0, 'what is folded is not printed');
    assert.equal(await page.locator('svg.chart:visible, .whole:visible').count(), 0, 'charts are not printed');
    const background = await page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    assert.equal(background, 'rgb(255, 255, 255)');
    const short = await pagesOf(page);
    assert.ok(short <= 2, `${short} pages`);
    await page.emulateMedia({ media: 'screen' });
    await page.getByLabel('Print everything').check();
    await page.emulateMedia({ media: 'print' });
    assert.ok(await page.locator('svg.chart').first().isVisible(), 'charts are printed');
    assert.ok(await page.locator('table.results').isVisible(), 'results are printed');
    assert.equal(await page.locator('.on-paper:visible').count(), 0);
    const whole = await pagesOf(page);
    assert.ok(whole > 4, `${whole} pages`);
    await close();
  }
});

test('prints on request what was opened, whole', async () => {
  // 186 mm, which A4 leaves between its margins.
  const { page, close } = await open({ colorScheme: 'dark', viewport: { width: 703, height: 900 } }, card());
  await page.evaluate(() => document.querySelectorAll('.fold').forEach((d) => { d.open = true; }));
  await page.emulateMedia({ media: 'print' });
  // The browser opens what is folded in an open part with the next frame that it draws, which a busy machine is late with.
  const folded = () => [...document.querySelectorAll('.fold details:not(.raw details, figure details)')]
    .filter((d) => [...d.children].some((c) => c.tagName !== 'SUMMARY' && !c.checkVisibility({ contentVisibilityAuto: true })))
    .map((d) => d.querySelector('summary').textContent);
  let closed = await page.evaluate(folded);
  for (const end = Date.now() + 10_000; closed.length > 0 && Date.now() < end; closed = await page.evaluate(folded)) {
    await page.screenshot();
  }
  assert.deepEqual(closed, [], `folded on paper, in Chromium ${browser.version()}`);
  const broken = await page.evaluate(() => [...document.querySelectorAll('.results .name code')]
    .filter((c) => c.getClientRects().length > 1).map((c) => c.textContent));
  assert.deepEqual(broken, [], 'names of layers are not broken');
  const edge = await page.locator('.overview table').evaluate((t) => t.getBoundingClientRect().right - document.documentElement.clientWidth);
  assert.ok(edge <= 1, `the matrix ends ${edge} px beyond the paper`);
  for (const selector of ['.fold > summary', '.fold h2', '.hint', 'figcaption', '.results .group']) {
    const after = await page.locator(selector).first().evaluate((e) => getComputedStyle(e).breakAfter);
    assert.equal(after, 'avoid', `${selector} stays with what follows`);
  }
  const table = page.locator('table.results');
  assert.ok(await table.isVisible());
  const [wide, frame, hidden] = await table.evaluate((t) => [
    t.getBoundingClientRect().right,
    document.documentElement.clientWidth,
    t.parentElement.scrollHeight - t.parentElement.clientHeight,
  ]);
  assert.ok(wide <= frame + 1, `the table ends at ${wide}, the paper at ${frame}`);
  assert.ok(hidden <= 1, `${hidden} px of the table are cut off`);
  assert.ok(await pagesOf(page) > 4, 'it is printed');
  await close();
});

test('is one file of a size that can be mailed', () => {
  const bytes = readFileSync(path).length;
  assert.ok(bytes < 8 << 20, `${bytes} bytes`);
});

test('a matrix has a table for each layer that can be read light, dark and printed, and opens to its surfaces', async () => {
  const at = pathToFileURL(sample('matrix')).href;
  for (const colorScheme of ['light', 'dark']) {
    const { page, seen, close } = await open({ colorScheme }, at);
    const tables = page.locator('#matrices .heat');
    assert.equal(await tables.count(), 4 * 3, 'four tests in three layers');
    await page.locator('#matrices > summary').click();
    assert.ok(await tables.first().isVisible());
    const colours = await tables.nth(1).locator('td').evaluateAll((cells) => cells.map((c) => {
      const style = getComputedStyle(c);
      return [style.backgroundColor, style.color];
    }));
    assert.ok(new Set(colours.map(([back]) => back)).size > 1, 'shades differ');
    const shot = page.locator('.matrix details.charts').first();
    await shot.locator('summary').first().click();
    assert.ok(await shot.locator('svg.chart').first().isVisible());
    const wide = await page.evaluate(() => document.documentElement.scrollWidth > document.documentElement.clientWidth);
    assert.ok(!wide, 'nothing hangs over the side');
    assert.deepEqual(seen.complaints, []);
    await close();
  }
});

test('the whole matrix of iozone in three layers stays a page that opens', { timeout: 600_000 }, async () => {
  const made = sample('iozone');
  assert.ok(readFileSync(made).length < 10 << 20, `${readFileSync(made).length} bytes`);
  const before = Date.now();
  const { page, seen, close } = await open({}, pathToFileURL(made).href);
  await page.locator('#matrices > summary').click();
  const folded = page.locator('.matrix');
  assert.equal(await folded.count(), 13);
  await folded.first().locator('summary').first().click();
  assert.ok(await folded.first().locator('.heat').first().isVisible());
  assert.ok(Date.now() - before < 60_000, 'it opens within a minute on a busy machine');
  assert.deepEqual(seen.complaints, []);
  await close();
});
