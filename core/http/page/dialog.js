// Questions and forms in a <dialog>: the focus stays in it, Esc closes it, and goes back to where it was.
import { h, fill, button } from './dom.js';

let serial = 0;

function field(spec) {
  const id = `field-${++serial}`;
  const common = { id, name: spec.name, required: spec.required, 'aria-describedby': spec.help ? `${id}-help` : null };
  let input;
  if (spec.type === 'select') {
    input = h('select', common, spec.options.map((o) => {
      const [value, text] = Array.isArray(o) ? o : [o, o];
      return h('option', { value, selected: value === (spec.value ?? '') }, text);
    }));
  } else if (spec.type === 'textarea') {
    input = h('textarea', { ...common, rows: spec.rows ?? 4, placeholder: spec.placeholder, value: spec.value ?? '',
      spellcheck: 'false' });
  } else if (spec.type === 'checkbox') {
    input = h('input', { ...common, type: 'checkbox', checked: spec.value ?? false });
  } else {
    input = h('input', { ...common, type: spec.type ?? 'text', value: spec.value ?? '', min: spec.min, max: spec.max,
      placeholder: spec.placeholder, autocomplete: spec.autocomplete ?? 'off', readOnly: spec.readOnly ?? false,
      spellcheck: 'false' });
  }
  const help = spec.help && h('small', { id: `${id}-help` }, spec.help);
  const label = h('label', { for: id }, spec.label);
  return { spec, input, node: h('div', { class: `field ${spec.type === 'checkbox' ? 'check' : ''}` },
    spec.type === 'checkbox' ? [input, label] : [label, input], help) };
}

// Fields as a form's part: { node, values() }. A spec: { name, label, type: 'text' | 'number' | 'password' | 'textarea'
// | 'select' | 'checkbox', value, options, help, required, placeholder }. Numbers that are empty are undefined.
export function fields(specs) {
  const made = specs.map(field);
  return {
    node: h('div', { class: 'fields' }, made.map((f) => f.node)),
    values: () => Object.fromEntries(made.map(({ spec, input }) => {
      if (spec.type === 'checkbox') return [spec.name, input.checked];
      if (spec.type === 'number') return [spec.name, input.value === '' ? undefined : Number(input.value)];
      return [spec.name, input.value];
    })),
    input: (name) => made.find((f) => f.spec.name === name).input,
  };
}

// Ask for values, and do something with them. The dialog stays open, and shows the error, while `submit(values)`
// fails. Gives a promise: what submit gave, or undefined when the user thought better of it.
export function ask({ title, text, specs = [], verb, danger = false, submit, check }) {
  const form = fields(specs);
  const error = h('p', { class: 'error', role: 'alert', hidden: true });
  const go = h('button', { class: `button ${danger ? 'danger' : 'primary'}`, type: 'submit' }, verb);
  const cancel = button('Cancel', () => dialog.close());
  const titleId = `dialog-${++serial}`;
  const body = h('form', { method: 'dialog' }, h('h2', { id: titleId }, title), text && h('p', {}, text), form.node,
    error, h('div', { class: 'dialog-buttons' }, cancel, go));
  const dialog = h('dialog', { 'aria-labelledby': titleId }, body);
  const before = document.activeElement;
  const look = () => {
    go.disabled = check ? !check(form.values()) : false;
  };

  return new Promise((resolve) => {
    let result;
    body.addEventListener('input', look);
    body.addEventListener('submit', async (event) => {
      event.preventDefault();
      go.disabled = true;
      try {
        result = (await submit(form.values())) ?? true;
        dialog.close();
      } catch (problem) {
        error.hidden = false;
        fill(error, problem.message);
        look();
      }
    });
    dialog.addEventListener('close', () => {
      dialog.remove();
      if (before?.isConnected) before.focus();
      resolve(result);
    });
    look();
    document.body.append(dialog);
    dialog.showModal();
    if (specs.length === 0) (danger ? cancel : go).focus();
  });
}

// A question before something that destroys. With `typed`, that text must be typed to go on.
export function confirm({ title, text, verb, typed, danger = true, submit = () => true }) {
  return ask({
    title, text, verb, danger, submit,
    specs: typed === undefined ? [] : [{ name: 'typed', label: `Type ${typed} to go on`, required: true }],
    check: typed === undefined ? null : ({ typed: given }) => given === typed,
  });
}

// Something to read, with a button to close it. Gives the dialog.
export function show(title, ...children) {
  const titleId = `dialog-${++serial}`;
  const before = document.activeElement;
  const dialog = h('dialog', { 'aria-labelledby': titleId, class: 'wide' }, h('h2', { id: titleId }, title), children,
    h('div', { class: 'dialog-buttons' }, button('Close', () => dialog.close(), 'primary')));
  dialog.addEventListener('close', () => {
    dialog.remove();
    if (before?.isConnected) before.focus();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}
