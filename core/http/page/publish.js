// The form that publishes one message to a queue or a topic.
import { api, at } from './api.js';
import { ask } from './dialog.js';
import { parseOptions, givenOptions } from './options.js';
import { tell } from './toast.js';
import { count } from './format.js';

// Open it. `kind`: 'queue' or 'topic'. Gives a promise, true when something was published.
export function publishForm(ctx, kind, name) {
  return ask({
    title: `Publish to ${name}`, verb: 'Publish',
    specs: [
      { name: 'payload', label: 'Payload', type: 'textarea', rows: 6 },
      { name: 'headers', label: 'Headers', type: 'textarea', rows: 2, placeholder: 'name=value, one a line' },
      { name: 'priority', label: 'Priority', type: 'number', min: 0, max: 255 },
      { name: 'delay', label: 'Delay', placeholder: '30s' },
      { name: 'ttl', label: 'Time to live', placeholder: '1h' },
      { name: 'id', label: 'Publish id', help: 'a repetition of the same id is stored once' }],
    submit: async (values) => {
      const { payload, headers, ...rest } = values;
      const body = { key: name, payload, headers: parseOptions(headers), ...givenOptions(rest) };
      if (rest.priority !== undefined) body.priority = rest.priority;
      const answer = await api.post(at(ctx.vhost, 'exchanges', '-', 'publish'), body);
      if (answer?.duplicate) tell('It is a repetition: the message is there already.');
      else tell(`Published as ${answer?.id}: ${answer?.queues === 0 ? `no ${kind} took it` : `${count(answer?.queues, kind)} took it`}.`);
    },
  });
}
