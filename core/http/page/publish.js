// The form that publishes one message.
import { api, at } from './api.js';
import { ask } from './dialog.js';
import { parseOptions, givenOptions } from './options.js';
import { tell } from './toast.js';
import { count } from './format.js';

// Open it. `fixed`: the exchange and the key cannot be changed. Gives a promise, true when something was published.
export function publishForm(ctx, { exchange = '-', key = '', fixed = false } = {}) {
  const address = fixed ? [] : [
    { name: 'exchange', label: 'Exchange', value: exchange, required: true, help: '- is the default exchange' },
    { name: 'key', label: 'Routing key', value: key },
  ];
  return ask({
    title: fixed ? `Publish to ${key}` : 'Publish', verb: 'Publish',
    specs: [...address,
      { name: 'payload', label: 'Payload', type: 'textarea', rows: 6 },
      { name: 'headers', label: 'Headers', type: 'textarea', rows: 2, placeholder: 'name=value, one a line' },
      { name: 'priority', label: 'Priority', type: 'number', min: 0, max: 255 },
      { name: 'delay', label: 'Delay', placeholder: '30s' },
      { name: 'ttl', label: 'Time to live', placeholder: '1h' },
      { name: 'id', label: 'Publish id', help: 'a repetition of the same id is stored once' }],
    submit: async (values) => {
      const { payload, headers, exchange: to = exchange, key: by = key, ...rest } = values;
      const body = { key: by, payload, headers: parseOptions(headers), ...givenOptions(rest) };
      if (rest.priority !== undefined) body.priority = rest.priority;
      const answer = await api.post(at(ctx.vhost, 'exchanges', to, 'publish'), body);
      if (answer?.duplicate) tell('It is a repetition: the message is there already.');
      else tell(`Published as ${answer?.id}: ${answer?.queues === 0 ? 'no queue took it' : `${count(answer?.queues, 'queue')} took it`}.`);
    },
  });
}
