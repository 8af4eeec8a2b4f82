# config_file.awk: the configuration file of a service, from what `tidemq help serve` prints:
# each option with what it does, commented out at its default.
#
#   tidemq help serve | awk -v data=/var/lib/tidemq -v rules=/etc/tidemq/rules -f tools/config_file.awk

function comment(text,    words, n, i, line) {
	n = split(text, words, / +/)
	line = "  --"
	for (i = 1; i <= n; i++) {
		if (length(line) + length(words[i]) > 97) {
			print line
			line = "  --"
		}
		line = line " " words[i]
	}
	print line
}

function key(name) {
	return name ~ /-/ ? "[\"" name "\"]" : name
}

# As Lua writes it: a number bare, a flag as a boolean, all else as a text.
function value(arg, fallback) {
	if (arg == "")
		return "false"
	if (arg == "N" && fallback != "")
		return fallback
	return "\"" (fallback == "" ? arg : fallback) "\""
}

BEGIN {
	print "-- The options of the service tidemq: `tidemq serve --config` reads them."
	print "-- What is commented out is the default, or what the option takes if it has none."
	print "-- tidemq-serve(1) explains the options. Restart the service after a change."
	print "return {"
}

/^  --/ {
	line = $0
	sub(/^ +--/, "", line)
	match(line, /^[a-z0-9-]+/)
	name = substr(line, 1, RLENGTH)
	line = substr(line, RLENGTH + 1)
	arg = fallback = note = ""
	if (line !~ /^  /) {
		sub(/^ /, "", line)
		match(line, /^[^ ]+/)
		arg = substr(line, 1, RLENGTH)
		line = substr(line, RLENGTH + 1)
	}
	sub(/^ +/, "", line)
	if (name == "help" || name == "config")
		next
	if (arg != "" && match(line, / \([^()]*\)$/)) {
		fallback = substr(line, RSTART + 2, RLENGTH - 3)
		sub(/^default: /, "", fallback)
		line = substr(line, 1, RSTART - 1)
	}
	# A default in words is no value.
	if (arg ~ /^(DIR|FILE|GROUP)$/ && fallback ~ /[ ]|^none$/) {
		note = "; default: " fallback
		fallback = ""
	}
	if (count++ > 0)
		print ""
	comment(line note)
	if (name == "data")
		printf "  data = \"%s\",\n", data
	else if (name == "rules")
		printf "  rules = \"%s\",\n", rules
	else
		printf "  -- %s = %s,\n", key(name), value(arg, fallback)
}

END {
	if (count == 0)
		exit 1
	print "}"
}
