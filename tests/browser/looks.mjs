// What is looked at on every page.
export const cwd = new URL('../..', import.meta.url).pathname;

// Opens all that is folded.
export const unfold = (page) => page.evaluate(() => document.querySelectorAll('details').forEach((d) => { d.open = true; }));

// Pages of a printed document.
export const pagesOf = async (page) => (await page.pdf({ format: 'A4' })).toString('latin1').match(/\/Type\s*\/Page\b/g).length;

// Words of the answer that are on two lines. In the page.
export const brokenWords = () => {
  const found = [];
  const answer = [...document.querySelectorAll('h1, .caveat, .believe, .in-short, .findings, .overview, .claims')];
  for (const part of answer) {
    const walker = document.createTreeWalker(part, NodeFilter.SHOW_TEXT);
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
      if (!node.parentElement.checkVisibility() || node.parentElement.closest('.unseen, thead')) continue;
      // A name may be broken after its own signs.
      for (const word of node.data.matchAll(/[^\s:,=/._-]+/g)) {
        const range = document.createRange();
        range.setStart(node, word.index);
        range.setEnd(node, word.index + word[0].length);
        const lines = new Set([...range.getClientRects()].map((r) => Math.round(r.top)));
        if (lines.size > 1) found.push(word[0]);
      }
    }
  }
  return found;
};

// Contrast by WCAG 2: of the text's colour over the nearest opaque background.
export const contrasts = () => {
  // A mixed colour is told as shares of 1, the others as 0 to 255.
  const parse = (c) => (c.match(/[\d.]+/g) ?? []).map(Number).map((v, n) => (c.startsWith('color(') && n < 3 ? 255 * v : v));
  const light = ([r, g, b]) => [r, g, b].map((v) => v / 255).map((v) => (v <= 0.03928 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4))
    .reduce((sum, v, i) => sum + v * [0.2126, 0.7152, 0.0722][i], 0);
  const known = new Map();
  const behind = (e) => {
    if (!e) return [255, 255, 255];
    if (!known.has(e)) {
      const c = parse(getComputedStyle(e).backgroundColor);
      known.set(e, c.length === 3 || c[3] === 1 ? c : behind(e.parentElement));
    }
    return known.get(e);
  };
  const poor = [];
  for (const e of document.querySelectorAll('body *')) {
    const own = [...e.childNodes].some((n) => n.nodeType === 3 && n.textContent.trim());
    if (!own || !e.getClientRects().length) continue;
    const style = getComputedStyle(e);
    const [a, b] = [light(parse(e.closest('svg') ? style.fill : style.color)), light(behind(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) poor.push(`${ratio.toFixed(2)} ${e.tagName}.${e.getAttribute('class')} ${e.textContent.slice(0, 30)}`);
  }
  return { poor: [...new Set(poor)].slice(0, 20), background: light(behind(document.body)) };
};
