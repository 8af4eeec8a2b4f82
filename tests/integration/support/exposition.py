"""What Prometheus' own client library makes of /metrics, as JSON.

    exposition.py text|openmetrics <FILE

An array of families, in their order: name, type, help, samples (name, labels, value).
"""
import json
import math
import sys

from prometheus_client.openmetrics import parser as openmetrics
from prometheus_client import parser as text

parse = {"text": text, "openmetrics": openmetrics}[sys.argv[1]]


def number(value):
    return value if math.isfinite(value) else str(value)


# An array even if it is empty, for Lua.
json.dump({"families": [
    {
        "name": family.name, "type": family.type, "help": family.documentation,
        "samples": [{"name": s.name, "labels": s.labels, "value": number(s.value)} for s in family.samples],
    }
    for family in parse.text_string_to_metric_families(sys.stdin.read())
]}, sys.stdout)
