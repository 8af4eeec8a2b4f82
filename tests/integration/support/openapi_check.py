"""Hold exchanges with a broker against docs/openapi.json.

Each line of standard input is {"operation": "GET /path", "status": 200, "request": …, "answer": …}, a
request and an answer of which may be absent. Prints what does not fit; the exit status is 1 then.
"""
import json
import sys

from jsonschema import Draft202012Validator


def validator(document, schema):
    """Of a schema whose references are those of the document."""
    return Draft202012Validator({'components': document['components'], **schema})


def resolve(document, value):
    """What a reference stands for."""
    while '$ref' in value:
        at = document
        for part in value['$ref'].removeprefix('#/').split('/'):
            at = at[part]
        value = at
    return value


def schema_of(document, part):
    """Of a request's body or an answer."""
    return resolve(document, part)['content']['application/json']['schema']


def check(document, exchange):
    """What is wrong with it, line by line."""
    method, path = exchange['operation'].split(' ')
    operation = document['paths'][path][method.lower()]
    status = str(exchange['status'])
    if status not in operation['responses']:
        yield f"the status {status} is not described: {exchange.get('answer')}"
        return
    parts = [('answer', operation['responses'][status])]
    if 'request' in exchange:
        parts.append(('request', operation['requestBody']))
    for name, part in parts:
        for error in validator(document, schema_of(document, part)).iter_errors(exchange[name]):
            yield f'{name}: {error.json_path}: {error.message[:600]}'


def main():
    """Check all of them, and the document itself."""
    with open(sys.argv[1], encoding='utf-8') as file:
        document = json.load(file)
    for schema in document['components']['schemas'].values():
        Draft202012Validator.check_schema(schema)
    is_good = True
    for line in sys.stdin:
        exchange = json.loads(line)
        for problem in check(document, exchange):
            is_good = False
            print(f"{exchange['operation']}: {problem}")
    return 0 if is_good else 1


if __name__ == '__main__':
    sys.exit(main())
