// Candidate rules: upload or edit them, see what the check finds, try them beside the active ones, make them active.
import { h, fill, facts, section, button } from './dom.js';
import { api } from './api.js';
import { number, duration, share, ago, count } from './format.js';
import { confirm, fields, ask, show } from './dialog.js';
import { tell, tellError, attempt } from './toast.js';
import { rulesTabs } from './rules_tabs.js';
import { linkPlaces, sourceTable, loadFiles } from './source.js';
import { differenceOf, findingsList } from './decision.js';
import { diffTable } from './diff.js';
import { plainTable } from './table.js';
import * as draft from './candidate_draft.js';

const REFRESH_MS = 2000;
const SIDES = [['live', 'Active rules'], ['shadow', 'Candidate rules']];
const SHARE = { name: 'share', label: 'Share of publishes, in percent', type: 'number', min: 1, max: 100, value: 10,
  required: true };
const KINDS = ['errors', 'queues', 'shards', 'ranks', 'messages'];
// Figures with samples of their own, and what they are about.
const FIGURES = [['failures', 'Failures'], ['deliver', 'Deliveries'], ['settled', 'Settled messages'],
  ['declare', 'Declarations'], ['connect', 'Logins']];

// What the broker said of the last upload: { dir, check: { findings } }. Like the draft, it outlives the view.
let uploaded = null;

function differText(n) {
  if (n === 0) return 'no difference from the active rules';
  return n === 1 ? 'one differs from the active rules' : `${n} differ from the active rules`;
}

class Candidate {
  constructor(ctx) {
    this.ctx = ctx;
    this.shadow = h('div', { 'data-part': 'shadow' });
    this.draft = h('div', { 'data-part': 'draft' });
    this.outcome = h('div', { 'data-part': 'outcome', 'aria-live': 'polite' });
    this.kind = '';
    this.refresh = this.refresh.bind(this);
    this.node = h('div', {}, this.shadow, this.draft, this.outcome);
  }

  // The shadow.

  async refresh() {
    const d = await api.get('/api/rules/shadow', {}, { signal: this.ctx.signal });
    const kind = d.active ? `trial ${d.hash} ${d.started_ms} ${d.stopped}` : `none ${d.loading ?? ''}`;
    if (kind !== this.kind) {
      this.kind = kind;
      fill(this.shadow, d.active ? this.trialSections(d) : this.idleSection(d));
      this.shownSamples = '';
    }
    if (d.active) this.showFigures(d);
  }

  idleSection(d) {
    return section('Candidate rules', null, d.loading ? h('p', { class: 'notice' }, `Loading ${d.loading} …`)
      : [h('p', { class: 'empty' }, 'None are being tried. Upload some below, or name a directory.'),
        h('div', { class: 'tools' }, button('Try a directory', () => this.askForDirectory()))]);
  }

  trialSections(d) {
    const tools = [button('Promote', () => this.promote(), 'primary'),
      h('a', { class: 'button', href: this.ctx.href(['rules', 'replay'], { dir: d.directory }) }, 'Replay'),
      button('Stop the trial', () => this.drop(), 'danger')];
    this.figures = h('div', { 'data-part': 'figures' });
    this.samples = h('div', { 'data-part': 'samples' });
    return [
      d.stopped && h('p', { class: 'notice bad' }, d.apply
        ? 'Their scripts have failed 20 times, and they decide no more.'
        : 'They took 20 ms or more for five decisions, and decide no more.'),
      section('Candidate rules decide beside the active ones', tools, this.figures), this.samples];
  }

  // The figures change all the time; the samples stay for those who read them.
  showFigures(d) {
    this.trial = d;
    fill(this.figures, facts([
      ['directory', d.directory], ['hash', d.hash], [`share of ${d.apply ? `the values of ${d.apply}, in earnest` : 'publishes'}`, share(d.share)],
      ['decided', d.apply && number(d.decided)], ['left to the active rules, as a script failed', d.apply && number(d.failed)],
      ['since', ago(d.started_ms)], ['seen', number(d.seen)], ['compared', number(d.compared)],
      ['decided differently', h('b', { class: d.differing ? 'warn' : 'good' }, number(d.differing))],
      ...KINDS.map((kind) => [`differing ${kind}`, d.differences?.[kind] ? number(d.differences[kind]) : null]),
      ['mean time of a decision', d.compared ? duration(d.time_us / d.compared / 1000) : null],
      ['longest decision', duration((d.time_max_us ?? 0) / 1000)],
      ...FIGURES.map(([name, title]) => [`${title.toLowerCase()} compared`, d[name]?.compared
        ? `${number(d[name].compared)}, ${number(d[name].differing)} differing` : null]),
    ]));
    const samples = JSON.stringify([d.samples, FIGURES.map(([name]) => d[name]?.samples), d.compared > 0]);
    if (samples === this.shownSamples) return;
    this.shownSamples = samples;
    fill(this.samples, section('Publishes decided differently', null, d.samples?.length
      ? d.samples.map((one) => differenceOf(this.ctx, one, SIDES))
      : h('p', { class: 'empty' }, d.compared ? 'None so far.' : 'Nothing was published yet.')),
    FIGURES.map(([name, title]) => d[name]?.samples?.length > 0 && section(`${title} decided differently`, null,
      d[name].samples.map((one) => differenceOf(this.ctx, one, SIDES)))));
  }

  askForDirectory() {
    return ask({
      title: 'Try the rules of a directory', verb: 'Start',
      specs: [{ name: 'dir', label: 'Directory on the broker’s machine', required: true,
        help: 'absolute, or within the directory of candidates (serve --rules-candidates)' }, SHARE],
      submit: (form) => this.start(form.dir, form.share),
    });
  }

  async start(dir, percent) {
    await api.post('/api/rules/shadow', { dir, share: `${percent}%` });
    tell('The candidate rules decide beside the active ones.');
    await this.refresh();
  }

  promote() {
    const d = this.trial;
    const others = FIGURES.filter(([name]) => d[name]?.differing)
      .map(([name, title]) => `, ${number(d[name].differing)} ${title.toLowerCase()}`).join('');
    return confirm({
      title: 'Make the candidate rules active?', verb: 'Promote',
      text: `The rules ${d.hash} decide from now on. ${number(d.differing)} of ${number(d.compared)} publishes${others} were ` +
        'decided differently. The rules directory is not written.',
      submit: async () => {
        await api.post('/api/rules/shadow/promote');
        uploaded = null;
        draft.discard();
        tell('The candidate rules are active.');
        await this.refresh();
        await this.showDraft();
      },
    });
  }

  drop() {
    return confirm({
      title: 'Stop the trial?', verb: 'Stop',
      text: 'The figures of the candidate rules are gone then. The active rules stay.',
      submit: async () => {
        await api.delete('/api/rules/shadow');
        await this.refresh();
      },
    });
  }

  // The draft.

  async showDraft() {
    const input = h('input', { type: 'file', id: 'candidate-directory', webkitdirectory: true, multiple: true,
      onchange: () => this.readDirectory(input.files) });
    const now = draft.current();
    fill(this.draft, section('Prepare candidate rules', null,
      h('p', { class: 'dim' }, 'Choose a rules directory on this machine, or edit the active rules. ',
        'Nothing changes on the broker until you start a trial.'),
      h('div', { class: 'fields' }, h('div', { class: 'field' },
        h('label', { for: 'candidate-directory' }, 'A rules directory'), input),
      h('div', { class: 'field' }, h('label', {}, 'A single file'), h('div', { class: 'tools' },
        button('Edit a file', () => this.chooseFile()), button('New file', () => this.newFile()))))),
    now && await this.changesSection(now));
    fill(this.outcome, uploaded ? this.uploadedSection() : null);
  }

  async changesSection(now) {
    const { before, list } = await draft.changes();
    const rows = list.map((one) => [one.file, one.kind, `+${one.added} −${one.removed}`, h('span', { class: 'tools' },
      button('Difference', () => show(one.file, diffTable(before[one.file], now.files[one.file], 'unified')), 'small'),
      now.files[one.file] === undefined ? null : button('Edit', () => this.editFile(one.file), 'small'),
      now.from === 'active' ? button('Undo', () => this.undo(one.file, before), 'small') : null)]);
    const note = now.leftOut
      ? ` ${count(now.leftOut, 'file')} left out: only scripts are rules, and specs are not uploaded.` : '';
    return section('The candidate', [
      button('Upload and check', () => this.upload(), 'primary', { disabled: list.length === 0 }),
      button('Discard', () => this.discard())],
    h('p', { class: 'dim' }, `${count(Object.keys(now.files).length, 'file')}, ${differText(list.length)}.${note}`),
    list.length ? plainTable('candidate files', [{ text: 'File', class: 'mono' }, { text: '' },
      { text: 'Lines', numeric: true }, { text: '' }], rows) : null);
  }

  async readDirectory(list) {
    uploaded = null;
    if (await attempt(() => draft.readDirectory([...list]))) await this.showDraft();
  }

  async discard() {
    draft.discard();
    uploaded = null;
    await this.showDraft();
  }

  async undo(file, before) {
    await draft.edit(file, before[file] ?? null);
    uploaded = null;
    await this.showDraft();
  }

  async chooseFile() {
    try {
      const { files } = await draft.begin();
      const names = Object.keys(files).sort();
      if (names.length === 0) return await this.newFile();
      await ask({ title: 'Edit a file', verb: 'Edit', specs: [{ name: 'file', label: 'File', type: 'select',
        options: names, value: names[0] }],
      submit: ({ file }) => {
        setTimeout(() => this.editFile(file));
      } });
    } catch (error) {
      tellError(error);
    }
  }

  async newFile() {
    await ask({ title: 'A new script', verb: 'Write it', specs: [{ name: 'file', label: 'Path', required: true,
      placeholder: 'filter/20-orders.lua',
      help: 'its folder says what it decides: filter, routing, sharding, priority, retry, deliver, settled, schedule, '
        + 'declare, connect, auth; with the path of a shipped script you begin with its text' }],
    submit: async ({ file }) => {
      if (!/^[\w-]+(\/[\w.-]+)+\.lua$/.test(file)) throw new Error('write a path like filter/20-orders.lua');
      const { files } = await draft.begin();
      files[file] ??= await draft.shippedText(file) ?? 'return {\n  doc = "",\n}\n';
      setTimeout(() => this.editFile(file));
    } });
  }

  async editFile(file) {
    const { files } = await draft.begin();
    const text = h('textarea', { class: 'editor', rows: 24, spellcheck: 'false', 'aria-label': file,
      value: files[file] });
    const dialog = show(`Edit ${file}`, text, h('div', { class: 'dialog-buttons' },
      button('Remove the file', () => this.keep(dialog, file, null), 'danger'),
      button('Keep in the candidate', () => this.keep(dialog, file, text.value), 'primary')));
    text.focus();
  }

  async keep(dialog, file, text) {
    await draft.edit(file, text);
    uploaded = null;
    dialog.close();
    await this.showDraft();
  }

  // What the broker says of it.

  async upload() {
    fill(this.outcome, h('p', { class: 'empty' }, 'Uploading and checking …'));
    try {
      uploaded = await api.put('/api/rules/candidate', { files: draft.current().files });
    } catch (error) {
      uploaded = null;
      fill(this.outcome, h('p', { class: 'verdict bad', role: 'alert' }, linkPlaces(this.ctx, error.message)));
      return;
    }
    fill(this.outcome, this.uploadedSection());
  }

  uploadedSection() {
    const { dir, check } = uploaded;
    const findings = check?.findings ?? [];
    const wrong = findings.filter((finding) => !finding.note).length;
    const form = fields([SHARE]);
    return section('Uploaded', [h('a', { class: 'button', href: this.ctx.href(['rules', 'replay'], { dir }) },
      'Replay recent publishes')],
    h('p', { class: `verdict ${wrong ? 'bad' : 'good'}` }, wrong ? `The check finds ${wrong === 1 ? 'one problem'
      : `${wrong} problems`}.` : 'The check finds nothing wrong.', h('small', {}, dir)),
    findings.length > 0 && findingsList(this.ctx, findings, (finding) => this.openFinding(finding)),
    h('form', { onsubmit: (event) => {
      event.preventDefault();
      attempt(() => this.start(dir, form.values().share));
    } }, form.node, h('div', { class: 'dialog-buttons' }, h('button', { class: 'button primary', type: 'submit' },
      'Start the trial'))));
  }

  async openFinding(finding) {
    const text = draft.current()?.files[finding.file] ?? (await loadFiles()).files[finding.file] ?? '';
    show(finding.line ? `${finding.file}, line ${finding.line}` : finding.file, h('p', {}, finding.text),
      sourceTable(text, { line: finding.line, wrong: !finding.note }));
  }
}

async function render(ctx) {
  const candidate = new Candidate(ctx);
  await candidate.refresh();
  await candidate.showDraft();
  ctx.every(REFRESH_MS, candidate.refresh);
  return h('div', {}, h('div', { class: 'view-head' }, h('h1', {}, 'Candidate rules')), rulesTabs(ctx, 'candidate'),
    candidate.node);
}

export const candidateView = { path: 'rules/candidate', title: 'Candidate rules', render };
