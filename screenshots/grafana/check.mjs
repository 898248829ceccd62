// Checks the dashboard against the types of Grafana's schema. See README.md.
import { spawnSync } from 'node:child_process';
import { readFileSync, rmSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';

const here = import.meta.dirname;
const dashboard = JSON.parse(readFileSync(join(here, '../../examples/monitoring/tallyglass-dashboard.json')));
const KINDS = { stat: ['Options'], table: ['Options', 'FieldConfig'], timeseries: ['Options', 'FieldConfig'] };

// Every part may be left out, and the value of an enumeration is written as its text.
const lines = [
  "import type { Dashboard } from '@grafana/schema';",
  'type Written<T> = T extends string ? `${T}` : T extends number | boolean | null | undefined ? T : { [K in keyof T]?: Written<T[K]> };',
  `export const dashboard: Written<Dashboard> = ${JSON.stringify(dashboard, null, 2)};`,
];
for (const [kind, types] of Object.entries(KINDS)) {
  const module = `./node_modules/@grafana/schema/dist/types/raw/composable/${kind}/panelcfg/x/types.gen`;
  lines.push(`import type { ${types.map((type) => `${type} as ${kind}${type}`).join(', ')} } from '${module}';`);
}
let count = 0;
function expect(value, type) {
  lines.push(`export const part${(count += 1)}: Written<${type}> = ${JSON.stringify(value)};`);
}
for (const { type, options, fieldConfig } of dashboard.panels) {
  expect(options, `${type}Options`);
  if (fieldConfig.defaults.custom) expect(fieldConfig.defaults.custom, `${type}FieldConfig`);
  for (const { id, value } of fieldConfig.overrides.flatMap((rule) => rule.properties)) {
    if (id.startsWith('custom.')) expect({ [id.slice('custom.'.length)]: value }, `${type}FieldConfig`);
  }
}

const source = join(here, 'dashboard.ts');
writeFileSync(source, `${lines.join('\n')}\n`);
const compiler = join(here, 'node_modules/typescript/bin/tsc');
const flags = ['--noEmit', '--strict', '--skipLibCheck', '--target', 'es2022', '--module', 'esnext', '--moduleResolution', 'bundler'];
const done = spawnSync(process.execPath, [compiler, ...flags, source], { stdio: 'inherit' });
rmSync(source);
process.exitCode = done.status;
