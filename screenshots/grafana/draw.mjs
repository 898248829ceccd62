// Usage: node draw.mjs PROMETHEUS MINUTES PICTURE. See README.md.
import { spawnSync } from 'node:child_process';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { build } from 'esbuild';

const [prometheus, minutes, picture] = process.argv.slice(2);
const here = import.meta.dirname;
const dashboard = JSON.parse(readFileSync(join(here, '../../examples/monitoring/tallyglass-dashboard.json')));
const to = Math.floor(Date.now() / 1000), from = to - minutes * 60;
const height = 16 + Math.max(...dashboard.panels.map(({ gridPos }) => gridPos.y + gridPos.h)) * 38;

async function ask(path, parameters) {
  const answer = await (await fetch(`${prometheus}/api/v1/${path}?${new URLSearchParams(parameters)}`)).json();
  if (answer.status !== 'success') throw new Error(`${parameters.query}: ${answer.error}`);
  return answer.data;
}

const [instance] = await ask('label/instance/values', { 'match[]': 'tallyglass_last_success_timestamp_seconds' });
const values = { instance, database: '.*' };

async function answer(target) {
  const query = target.expr.replace(/\$(\w+)/g, (_, name) => values[name]);
  const { result } = target.instant
    ? await ask('query', { query, time: to })
    : await ask('query_range', { query, start: from, end: to, step: Math.max(15, Math.ceil((to - from) / 300)) });
  return result.map(({ metric, value, values: points }) => ({ metric, points: points ?? [value] }));
}

const answers = {};
for (const panel of dashboard.panels) for (const target of panel.targets) answers[panel.id + target.refId] = await answer(target);

const folder = mkdtempSync(join(tmpdir(), 'grafana-'));
try {
  const files = Object.fromEntries(['.svg', '.ttf', '.woff', '.woff2'].map((end) => [end, 'dataurl']));
  await build({
    entryPoints: [join(here, 'panels.jsx')], outfile: join(folder, 'panels.js'), bundle: true, format: 'iife', jsx: 'automatic',
    define: { 'process.env.NODE_ENV': '"production"', global: 'window' }, loader: files, logLevel: 'error',
  });
  const shown = JSON.stringify({ dashboard, answers, range: { from: from * 1000, to: to * 1000 } }).replaceAll('<', '\\u003c');
  writeFileSync(join(folder, 'page.html'), `<!doctype html><meta charset="utf-8"><link rel="stylesheet" href="panels.css"><div id="root"></div><script>window.picture=${shown}</script><script src="panels.js"></script>`);
  const done = spawnSync('chromium', [
    '--headless', '--no-sandbox', '--disable-gpu', '--hide-scrollbars', '--enable-logging=stderr', '--virtual-time-budget=10000',
    `--user-data-dir=${join(folder, 'profile')}`, `--window-size=1200,${height}`, `--screenshot=${picture}`, join(folder, 'page.html'),
  ], { encoding: 'utf8', timeout: 120_000 });
  const errors = done.stderr.split('\n').filter((line) => line.includes('CONSOLE') && line.includes('Error'));
  if (done.status !== 0 || errors.length) throw new Error(errors.join('\n') || done.stderr);
} finally {
  rmSync(folder, { recursive: true });
}
