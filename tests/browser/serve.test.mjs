// Watches runs in Chromium as they go on: `layermark run --serve` and `layermark serve`.
// LAYERMARK_BIN names the binary; without it the one of the end-to-end tests is built, which has scripted layers.
import { execFileSync, spawn } from 'node:child_process';
import { mkdirSync, mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join, resolve } from 'node:path';
import assert from 'node:assert/strict';
import { after, before, test } from 'node:test';
import { launch } from './chromium.mjs';

const cwd = new URL('../..', import.meta.url).pathname;
const scratch = mkdtempSync(join(tmpdir(), 'layermark-serve-'));
const started = [];
let browser;
let binary;

function build() {
  if (process.env.LAYERMARK_BIN) return process.env.LAYERMARK_BIN;
  execFileSync('cargo', ['test', '--workspace', '--quiet', '--locked', '--no-run'], { cwd, stdio: ['ignore', 'inherit', 'inherit'] });
  const host = execFileSync('rustc', ['--print', 'host-tuple'], { cwd, encoding: 'utf8' }).trim();
  return resolve(cwd, process.env.CARGO_TARGET_DIR ?? 'target', host, 'debug/layermark');
}

before(async () => {
  binary = build();
  mkdirSync(join(scratch, 'work'));
  browser = await launch();
});

after(async () => {
  await browser?.close();
  for (const child of started) child.kill('SIGKILL');
  rmSync(scratch, { recursive: true, force: true });
});

// A command in the store of this test. `address` is what it prints to open, `ended` its exit code.
function layermark(...args) {
  const child = spawn(binary, args, { cwd: scratch, env: { ...process.env, XDG_DATA_HOME: join(scratch, 'data') }, stdio: ['ignore', 'pipe', 'pipe'] });
  started.push(child);
  let said = '';
  const address = new Promise((resolve, reject) => {
    const look = (piece) => {
      said += piece;
      const found = said.match(/http:\/\/\S+\n/);
      if (found) resolve(found[0].trim());
    };
    child.stdout.on('data', look);
    child.stderr.on('data', look);
    child.on('exit', () => reject(new Error(said)));
  });
  address.catch(() => {});
  const ended = new Promise((resolve) => { child.on('exit', resolve); });
  return { child, address, ended };
}

// Scripted layers of which one takes half as long again as the other.
const measure = (...more) => ['file', '--op', 'read', '--record', '4K', '--file-size', '64K', '--no-control', '--dir', 'work',
  '-l', 'mock:take=60ms', '-l', 'mock:ns=1500,take=60ms,noise=0.01', ...more];

// A viewer; whatever it asks for or complains about is kept.
async function open(address, options = {}) {
  const context = await browser.newContext({ viewport: { width: 1200, height: 900 }, ...options });
  const page = await context.newPage();
  // A view that took 3 s to make, on a busy machine, is shown for a minute.
  page.setDefaultTimeout(300_000);
  const seen = { requests: [], complaints: [] };
  page.on('request', (r) => seen.requests.push(r.url()));
  page.on('console', (m) => seen.complaints.push(m.text()));
  page.on('pageerror', (e) => seen.complaints.push(String(e)));
  await page.goto(address, { timeout: 120_000 });
  await page.waitForURL((url) => !url.search.includes('token'));
  return { page, seen, close: () => context.close() };
}

const trials = async (page) => Number((await page.locator('.state').innerText()).match(/(\d+) trials/)[1]);
const grows = async (page, from) => {
  await page.waitForFunction((n) => Number(document.querySelector('.state')?.textContent.match(/(\d+) trials/)?.[1]) > n, from);
};

test('a run is watched, reloaded, watched by two, served again, and stopped', { timeout: 600_000 }, async () => {
  const run = layermark(...measure('--blocks', '4000', '--serve'));
  const address = await run.address;
  const one = await open(address);
  assert.equal(await one.page.getByRole('heading', { level: 1 }).innerText(), 'Run of file, in progress');
  const first = await trials(one.page);

  // It fills without being loaded again, and the cell of the slow layer decides.
  await one.page.evaluate(() => { window.same = true; });
  await one.page.locator('.overview td[class*=" s"]').filter({ hasText: '1.5' }).waitFor();
  await grows(one.page, first);
  await one.page.locator('.log li').filter({ hasText: 'is slower' }).waitFor();
  assert.ok(await one.page.evaluate(() => window.same), 'the page is the same one');
  assert.ok(await one.page.locator('progress').isVisible());

  // Loaded again in the middle it shows the state at once, and goes on.
  const before = await trials(one.page);
  await one.page.reload();
  assert.ok(await trials(one.page) >= before);
  assert.ok(await one.page.locator('.overview td[class*=" s"]').isVisible());
  await grows(one.page, before);

  // The second viewer has no JavaScript, and another process serves it.
  const history = layermark('serve');
  const still = await open(await history.address, { javaScriptEnabled: false });
  assert.ok(await still.page.getByText('running', { exact: true }).isVisible());
  await still.page.locator('tbody a').first().click();
  assert.ok(await still.page.locator('.overview table').isVisible());
  const then = await trials(still.page);
  // A look is shared for two seconds or more.
  for (let n = 0; n < 100 && await trials(still.page) === then; n += 1) {
    const loaded = still.page.waitForEvent('load');
    await still.page.locator('noscript a').click();
    await loaded;
    await one.page.waitForTimeout(200);
  }
  assert.ok(await trials(still.page) > then);

  // The third one's server ends, and starts again at the same address.
  const port = new URL(await history.address).port;
  const third = await open(await history.address);
  await third.page.locator('tbody a').first().click();
  await third.page.locator('#live .state').waitFor();
  await grows(third.page, await trials(third.page));
  history.child.kill('SIGKILL');
  await history.ended;
  await third.page.locator('#lost').filter({ hasText: 'does not answer' }).waitFor();
  const lost = await trials(third.page);
  // A page believes only the process that it came from: the address that is printed opens the run again.
  const again = layermark('serve', port);
  await third.page.goto(await again.address);
  await third.page.locator('tbody a').first().click();
  await third.page.locator('#live .state').waitFor();
  await grows(third.page, lost);
  assert.ok(!await third.page.locator('#lost').isVisible());

  // All are told that it was stopped, and get its report.
  run.child.kill('SIGINT');
  for (const { page } of [one, third]) {
    await page.getByText('stopped by the user').first().waitFor();
    assert.ok(await page.getByText('Make this run again').isVisible());
  }
  assert.equal(await run.ended, 130);
  for (const { seen } of [one, still]) {
    const own = (url) => url.startsWith('http://127.0.0.1:') || url.startsWith('data:');
    assert.deepEqual(seen.requests.filter((url) => !own(url)), [], 'nothing is asked for elsewhere');
    assert.deepEqual(seen.complaints, []);
  }
  again.child.kill('SIGTERM');
  assert.equal(await again.ended, 0);
  for (const viewer of [one, still, third]) await viewer.close();
});

test('a whole run leads to its report, and to the others without JavaScript', { timeout: 600_000 }, async () => {
  // A figure over runs takes none of scripted layers, which prove nothing.
  const real = ['file', '--op', 'read', '--record', '4K', '--file-size', '64K', '--dir', 'work', '-l', 'bind:rw', '--blocks', '2'];
  assert.equal(await layermark(...real).ended, 0);
  assert.equal(await layermark(...measure('--blocks', '9')).ended, 4);
  const run = layermark(...measure('--blocks', '40', '--serve'));
  const { page, seen, close } = await open(await run.address);
  await page.getByText('Make this run again').waitFor();
  assert.equal(await page.locator('script').count(), 0, 'this is the report');
  assert.equal(run.child.exitCode, null, 'it is served until Ctrl-C');
  assert.deepEqual(seen.complaints, []);

  const still = await open(await run.address, { javaScriptEnabled: false });
  assert.ok(await still.page.locator('.overview table').isVisible());
  await still.page.goto(new URL('/', await run.address).href);
  const rows = still.page.locator('tbody tr');
  assert.ok(await rows.count() >= 2);
  assert.match(await rows.first().innerText(), /done\s+1\/1: 1 slower/);
  await still.page.getByRole('button', { name: 'Compare old with new' }).click();
  assert.match(await still.page.locator('caption').first().innerText(), /time now \/ in the old run/);
  await still.page.goBack();
  const offered = await still.page.locator('datalist option').evaluateAll((all) => all.map((o) => o.value));
  assert.ok(offered.includes('native') && offered.includes('bind:rw'), `layers are offered: ${offered}`);
  await still.page.getByLabel('Point').fill('read 4K of 64K, warm');
  await still.page.getByLabel('Layer').fill('native');
  await still.page.getByRole('button', { name: 'Show how it changed' }).click();
  assert.match(await still.page.locator('h1').innerText(), /native at .*: time an operation/);
  assert.ok(await still.page.locator('svg.chart').isVisible());
  assert.deepEqual(still.seen.complaints, []);
  await still.close();
  run.child.kill('SIGINT');
  assert.equal(await run.ended, 4);
  await close();
});

test('without the token nothing is shown', { timeout: 120_000 }, async () => {
  const history = layermark('serve');
  const address = new URL(await history.address);
  const context = await browser.newContext();
  const page = await context.newPage();
  for (const search of ['', `?token=${'0'.repeat(32)}`]) {
    const answer = await page.goto(address.origin + search);
    assert.equal(answer.status(), 403);
    assert.match(await page.locator('body').innerText(), /the token is missing/);
  }
  await context.close();
  history.child.kill('SIGTERM');
  assert.equal(await history.ended, 0);
});
