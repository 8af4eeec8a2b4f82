// What can be done with a queue: a form, or a question, for each.
import { api, at } from './api.js';
import { ask, confirm } from './dialog.js';
import { parseOptions, givenOptions } from './options.js';
import { tell } from './toast.js';
import { count } from './format.js';

export function declareQueue(ctx) {
  return ask({
    title: 'New queue', verb: 'Declare',
    specs: [
      { name: 'name', label: 'Name', required: true },
      { name: 'shards', label: 'Shards', type: 'number', min: 1, max: 64, placeholder: '1' },
      { name: 'priority', label: 'Priority script', placeholder: 'fifo' },
      { name: 'retry', label: 'Retry script', placeholder: 'immediate' },
      { name: 'ack-timeout', label: 'Ack timeout', placeholder: '60s' },
      { name: 'ttl', label: 'Time to live', placeholder: 'no limit' },
      { name: 'max-length', label: 'Most messages', type: 'number', min: 0, placeholder: 'no limit' },
      { name: 'delivery-limit', label: 'Delivery limit', type: 'number', min: 0, placeholder: '20' },
      { name: 'dead-letter', label: 'Dead letters to', placeholder: '-/queue or exchange/key' },
      { name: 'durable', label: 'Durable: it survives a restart', type: 'checkbox', value: true },
      { name: 'more', label: 'More options', type: 'textarea', rows: 2, placeholder: 'name=value, one a line' },
    ],
    submit: async ({ name, more, durable, ...values }) => {
      const options = { ...givenOptions(values), ...parseOptions(more) };
      if (!durable) options.durable = '0';
      const answer = await api.put(at(ctx.vhost, 'queues', name), { options });
      tell(answer?.text ? `Declared; ${answer.text}` : `Queue ${name} is there.`);
      ctx.go(ctx.href(['queues', name]));
    },
  });
}

// The number of an answer that counts.
export function counted(answer) {
  return answer?.count ?? answer?.counts?.[0] ?? 0;
}

export function purgeQueue(ctx, name) {
  return confirm({
    title: 'Purge the queue?', verb: 'Purge', typed: name,
    text: `All messages of ${name} that no consumer holds are removed: ready, delayed and buried ones.`,
    submit: async () => tell(`${count(counted(await api.post(at(ctx.vhost, 'queues', name, 'purge'))), 'message')} removed.`),
  });
}

export function deleteQueue(ctx, name) {
  return confirm({
    title: 'Delete the queue?', verb: 'Delete', typed: name,
    text: `${name} goes with all its messages and bindings.`,
    submit: async () => {
      await api.delete(at(ctx.vhost, 'queues', name));
      tell(`Queue ${name} is deleted.`);
      ctx.go(ctx.href(['queues']));
    },
  });
}

function moved(answer) {
  const [gone, left] = answer?.counts ?? [answer?.moved ?? answer?.count ?? 0, answer?.left ?? 0];
  return `${count(gone, 'message')} moved, ${left} left.`;
}

export function redriveQueue(ctx, name) {
  return ask({
    title: 'Redrive', verb: 'Redrive',
    text: 'Sends each ready dead letter back to the queue where it died.',
    specs: [
      { name: 'max', label: 'How many', type: 'number', min: 1, placeholder: 'all' },
      { name: 'match', label: 'Only those that match', placeholder: 'text, key:pattern, h:name=value, lua:msg.priority > 3' },
      { name: 'routed', label: 'By their exchange', type: 'checkbox',
        help: 'Publishes them once more: filters and limits count again, and each bound queue gets one.' },
    ],
    submit: async ({ max, match, routed }) => tell(moved(await api.post(at(ctx.vhost, 'queues', name, 'redrive'),
      { routed, ...givenOptions({ match }), ...(max ? { max } : {}) }))),
  });
}

export function moveMessages(ctx, name) {
  return ask({
    title: 'Move messages', verb: 'Move',
    text: `Publishes ready messages of ${name} elsewhere, and removes them here.`,
    specs: [
      { name: 'to', label: 'To', required: true, placeholder: '-/queue or exchange/key' },
      { name: 'max', label: 'How many', type: 'number', min: 1, placeholder: 'all' },
      { name: 'match', label: 'Only those that match', placeholder: 'text, key:pattern, h:name=value, lua:msg.priority > 3' },
    ],
    submit: async ({ to, max, match }) => tell(moved(await api.post(at(ctx.vhost, 'queues', name, 'redrive'),
      { to, ...givenOptions({ match }), ...(max ? { max } : {}) }))),
  });
}

export function kickQueue(ctx, name) {
  return ask({
    title: 'Kick', verb: 'Kick', text: 'Makes buried messages ready, the oldest first. A number takes delayed ones when none is buried.',
    specs: [{ name: 'max', label: 'How many', type: 'number', min: 1, placeholder: 'all that are buried' }],
    submit: async ({ max }) => tell(`${count(counted(await api.post(at(ctx.vhost, 'queues', name, 'kick'),
      max ? { max } : {})), 'message')} made ready.`),
  });
}

export function pauseQueue(ctx, name) {
  return ask({
    title: 'Pause', verb: 'Pause',
    specs: [
      { name: 'direction', label: 'What stops', type: 'select', value: 'out',
        options: [['out', 'deliveries'], ['in', 'publishes'], ['both', 'both']] },
      { name: 'for', label: 'For', placeholder: 'until it is resumed', help: 'like 30s, 5m, 2h' },
    ],
    submit: (values) => api.post(at(ctx.vhost, 'queues', name, 'pause'), givenOptions(values)),
  });
}

export function resumeQueue(ctx, name) {
  return api.post(at(ctx.vhost, 'queues', name, 'resume'), { direction: 'both' });
}
