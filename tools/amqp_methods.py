#!/usr/bin/env python3
"""Write core/proto/amqp/amqp_methods.h from the definition of AMQP 0-9-1.

    tools/amqp_methods.py > core/proto/amqp/amqp_methods.h

The definition is RabbitMQ's, in Debian's package amqp-specs. With --check FILE nothing is
written: the status is 1 if FILE is another text, and 0 too where the package is not installed.
"""
import os
import sys
import xml.etree.ElementTree as ElementTree

SPEC = '/usr/share/amqp/specs/0-9-1-rabbit/amqp0-9-1.stripped.extended.xml'

# A letter for each type of a field.
LETTERS = {
    'bit': 'b', 'octet': 'o', 'short': 's', 'long': 'l', 'longlong': 'q', 'timestamp': 'q',
    'shortstr': 'S', 'longstr': 'L', 'table': 'T',
}
# RabbitMQ has them, and the XML does not.
MORE = [
    ('connection', 10, 'blocked', 60, False, [('reason', 'S')]),
    ('connection', 10, 'unblocked', 61, False, []),
    ('connection', 10, 'update-secret', 70, False, [('new-secret', 'L'), ('reason', 'S')]),
    ('connection', 10, 'update-secret-ok', 71, False, []),
]


def word(*names):
    return '_'.join(names).replace('-', '_').upper()


def read_methods(root):
    domains = {d.get('name'): d.get('type') for d in root.findall('domain')}

    def letter(field):
        kind = field.get('type') or field.get('domain')
        return LETTERS[domains.get(kind, kind)]

    for group in root.findall('class'):
        for method in group.findall('method'):
            fields = [(f.get('name'), letter(f)) for f in method.findall('field')]
            yield (group.get('name'), int(group.get('index')), method.get('name'),
                   int(method.get('index')), method.get('content') == '1', fields)


def read_properties(root):
    domains = {d.get('name'): d.get('type') for d in root.findall('domain')}
    basic = next(c for c in root.findall('class') if c.get('name') == 'basic')
    return [(f.get('name'), LETTERS[domains[f.get('domain')]]) for f in basic.findall('field')]


def read_codes(root):
    for constant in root.findall('constant'):
        name = constant.get('name')
        if not name.startswith('frame-') or name == 'frame-error':
            yield name, int(constant.get('value')), constant.get('class') == 'hard-error'


def write_rows(out, macro, rows):
    out.append('#define %s(X) \\' % macro)
    out.extend('\tX(%s) \\' % row for row in rows[:-1])
    out.append('\tX(%s)' % rows[-1])
    out.append('')


def generate():
    root = ElementTree.parse(SPEC).getroot()
    methods = sorted(list(read_methods(root)) + MORE, key=lambda m: (m[1], m[3]))
    out = ['/* amqp_methods.h: the methods of AMQP 0-9-1, their fields, and the properties of',
           ' * a message.',
           ' *',
           ' * Made by tools/amqp_methods.py from the XML of amqp-specs: change that. */',
           '#pragma once', '',
           '/* clang-format off */', '',
           '/* name, class, method, has content, a letter for each field: b bit, o octet,',
           ' * s short, l long, q 64 bits, S short text, L long text, T table */']
    write_rows(out, 'AMQP_METHODS', [
        'AMQP_%s, "%s.%s", %d, %d, %d, "%s"' % (
            word(group, name), group, name, class_id, method_id, content,
            ''.join(letter for _, letter in fields))
        for group, class_id, name, method_id, content, fields in methods])
    out.append('/* The places of the fields of a method. */')
    for group, _, name, _, _, fields in methods:
        if fields:
            out.append('enum { %s };' % ', '.join(
                'AMQP_' + word(group, name, field).replace('RESERVED_', 'RESERVED')
                for field, _ in fields))
    out += ['', '/* name, text, letter: in the order of the bits of their flags, from 15 down */']
    write_rows(out, 'AMQP_PROPERTIES', [
        'AMQP_P_%s, "%s", \'%s\'' % (word(name), name, letter)
        for name, letter in read_properties(root)])
    out.append('/* name, text, number, is of the connection */')
    write_rows(out, 'AMQP_CODES', [
        'AMQP_%s, "%s", %d, %d' % (word(name), word(name), number, hard)
        for name, number, hard in read_codes(root)])
    out += ['/* clang-format on */', '']
    return '\n'.join(out)


def main():
    if len(sys.argv) != 3 or sys.argv[1] != '--check':
        sys.stdout.write(generate())
        return 0
    if not os.path.exists(SPEC):
        return 0
    with open(sys.argv[2], encoding='utf-8') as file:
        if file.read() == generate():
            return 0
    print('%s is not what tools/amqp_methods.py makes' % sys.argv[2])
    return 1


if __name__ == '__main__':
    sys.exit(main())
