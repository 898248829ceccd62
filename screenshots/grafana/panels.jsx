// Draws `window.picture` = {dashboard, answers, range} with the panel components of Grafana.
import { useEffect, useState } from 'react';
import { createRoot } from 'react-dom/client';
import { lastValueFrom } from 'rxjs';
import {
  FieldType, Registry, ThemeContext, applyFieldOverrides, cacheFieldDisplayNames, createTheme, dateTime, fieldReducers, getDisplayValueAlignmentFactors,
  getFieldDisplayValues, getValueFormats, standardTransformers, standardTransformersRegistry, toDataFrame, transformDataFrame,
} from '@grafana/data';
import { BigValue, GlobalStyles, PanelChrome, TimeSeries } from '@grafana/ui';
import { TableNG } from '@grafana/ui/unstable';

const CELL = 37, GAP = 8, WIDTH = 1200;
const { dashboard, answers, range } = window.picture;
const theme = createTheme({ colors: { mode: 'light' } });
const timeRange = { from: dateTime(range.from), to: dateTime(range.to), raw: range };
const interpolate = (text) => text;

standardTransformersRegistry.setInit(() =>
  [...new Set(Object.values(standardTransformers))].map((one) => ({ ...one, transformation: () => Promise.resolve(one) })),
);

// The editors of a panel's properties are no part of the libraries: each property is taken as it is written.
const properties = new Registry(() => {
  const paths = dashboard.panels.flatMap(({ fieldConfig: { defaults: { custom, ...plain }, overrides } }) => [
    ...Object.keys(plain),
    ...Object.keys(custom ?? {}).map((key) => `custom.${key}`),
    ...overrides.flatMap((rule) => rule.properties.map(({ id }) => id)),
  ]);
  return [...new Set(paths)].map((id) => ({
    id, name: id, path: id.replace(/^custom\./, ''), isCustom: id.startsWith('custom.'),
    process: (value) => value, shouldApply: () => true, getItemsCount: () => 1,
  }));
});

function refuse(what, known) {
  if (!known) throw new Error(`Grafana does not know ${what}.`);
}

// What Grafana would pass over in silence.
function examine(panel) {
  const units = new Set(getValueFormats().flatMap((group) => group.submenu.map((unit) => unit.value)));
  for (const step of panel.transformations ?? []) refuse(`the transformation ${step.id}`, standardTransformersRegistry.getIfExists(step.id));
  for (const name of panel.options.reduceOptions?.calcs ?? []) refuse(`the calculation ${name}`, fieldReducers.getIfExists(name));
  const set = panel.fieldConfig.overrides.flatMap((rule) => rule.properties.filter(({ id }) => id === 'unit').map(({ value }) => value));
  for (const unit of [panel.fieldConfig.defaults.unit, ...set]) refuse(`the unit ${unit}`, units.has(unit));
}

function seriesFrames(answer, target) {
  return answer.map(({ metric, points }) => {
    const name = (target.legendFormat ?? '').replace(/\{\{\s*(\w+)\s*\}\}/g, (_, label) => metric[label] ?? '');
    return toDataFrame({
      refId: target.refId,
      fields: [
        { name: 'Time', type: FieldType.time, values: points.map(([at]) => at * 1000) },
        { name: 'Value', type: FieldType.number, values: points.map(([, value]) => Number(value)), labels: metric, config: name ? { displayNameFromDS: name } : {} },
      ],
    });
  });
}

function tableFrame(answer, target, alone) {
  const labels = [...new Set(answer.flatMap(({ metric }) => Object.keys(metric)))].sort();
  return toDataFrame({
    refId: target.refId,
    fields: [
      { name: 'Time', type: FieldType.time, values: answer.map(({ points }) => points[0][0] * 1000) },
      ...labels.map((label) => ({ name: label, type: FieldType.string, values: answer.map(({ metric }) => metric[label] ?? '') })),
      { name: alone ? 'Value' : `Value #${target.refId}`, type: FieldType.number, values: answer.map(({ points }) => Number(points[0][1])) },
    ],
  });
}

async function framesOf(panel) {
  const raw = panel.targets.flatMap((target) => {
    const answer = answers[`${panel.id}${target.refId}`];
    return target.format === 'table' ? [tableFrame(answer, target, panel.targets.length === 1)] : seriesFrames(answer, target);
  });
  const data = await lastValueFrom(transformDataFrame(panel.transformations ?? [], raw, { interpolate }));
  const frames = applyFieldOverrides({ data, fieldConfig: panel.fieldConfig, fieldConfigRegistry: properties, replaceVariables: interpolate, theme, timeZone: 'utc' });
  cacheFieldDisplayNames(frames);
  return frames;
}

function Stat({ panel, frames, width, height }) {
  const { reduceOptions, ...options } = panel.options;
  const values = getFieldDisplayValues({ data: frames, fieldConfig: panel.fieldConfig, reduceOptions, replaceVariables: interpolate, theme, timeZone: 'utc' });
  return <BigValue {...options} value={values[0].display} alignmentFactors={getDisplayValueAlignmentFactors(values)} width={width} height={height} theme={theme} />;
}

const KINDS = {
  stat: Stat,
  table: ({ panel, frames, width, height }) => (
    <TableNG {...panel.options} noHeader={!panel.options.showHeader} data={frames[0]} fieldConfig={panel.fieldConfig} enableVirtualization={false} width={width} height={height} />
  ),
  timeseries: ({ panel, frames, width, height }) => (
    <TimeSeries frames={frames} legend={panel.options.legend} options={panel.options} timeRange={timeRange} timeZone="utc" width={width} height={height} />
  ),
};

function Panel({ panel }) {
  const [frames, setFrames] = useState(null);
  useEffect(() => {
    framesOf(panel).then(setFrames);
  }, [panel]);
  const { x, y, w, h } = panel.gridPos;
  const column = (WIDTH - GAP) / 24;
  const place = { position: 'absolute', left: GAP + x * column, top: GAP + y * (CELL + 1) };
  const Kind = KINDS[panel.type];
  refuse(`a panel of type ${panel.type}`, Kind);
  const empty = <div style={{ padding: 16 }}>{panel.fieldConfig.defaults.noValue ?? 'No data'}</div>;
  return (
    <div style={place}>
      <PanelChrome title={panel.title} description={panel.description} width={w * column - GAP} height={h * (CELL + 1) - GAP}>
        {(width, height) => frames && (frames.some(({ length }) => length) ? <Kind panel={panel} frames={frames} width={width} height={height} /> : empty)}
      </PanelChrome>
    </div>
  );
}

dashboard.panels.forEach(examine);
createRoot(document.getElementById('root')).render(
  <ThemeContext.Provider value={theme}>
    <GlobalStyles />
    {dashboard.panels.map((panel) => <Panel key={panel.id} panel={panel} />)}
  </ThemeContext.Provider>,
);
