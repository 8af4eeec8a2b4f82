# man_page.awk: the man page of a verb, from what `tidemq help VERB` prints.
#
#   tidemq help pub | awk -v verb=pub -v version=0.3.0 -v date=2026-11-23 -f tools/man_page.awk
#
# Whatever the help does not have in this order is an error: usage, summary, details,
# options, examples, exit status.

# Text that a reader types: each sign as it is.
function literal(s) {
	gsub(/\\/, "\\e", s)
	gsub(/-/, "\\-", s)
	gsub(/'/, "\\(aq", s)
	gsub(/`/, "\\(ga", s)
	gsub(/\^/, "\\(ha", s)
	gsub(/~/, "\\(ti", s)
	return s
}

# A sentence, on lines of at most 78 bytes; only the hyphens of options are typed.
function prose(s,    words, n, i, line, out) {
	gsub(/\\/, "\\e", s)
	gsub(/--/, "\\-\\-", s)
	gsub(/'/, "\\(aq", s)
	gsub(/`/, "\\(ga", s)
	gsub(/\^/, "\\(ha", s)
	gsub(/~/, "\\(ti", s)
	n = split(s, words, / +/)
	for (i = 1; i <= n; i++) {
		if (line != "" && length(line) + length(words[i]) > 77) {
			out = out line "\n"
			line = ""
		}
		if (line == "" && words[i] ~ /^\./)
			words[i] = "\\&" words[i]
		line = line (line == "" ? "" : " ") words[i]
	}
	return out line
}

# The first letter of a sentence, unless it begins with a name.
function capital(s) {
	return s ~ /^[a-z]+[ .]/ ? toupper(substr(s, 1, 1)) substr(s, 2) : s
}

# One line for each form: " | " outside of brackets separates them.
function synopsis(text,    i, c, depth, form) {
	sub(/^\[options\] /, "", text)
	text = text " | "
	for (i = 1; i <= length(text); i++) {
		c = substr(text, i, 1)
		depth += (c == "[") - (c == "]")
		if (depth > 0 || substr(text, i, 3) != " | ") {
			form = form c
			continue
		}
		if (forms++ > 0)
			print ".br"
		printf ".B tidemq %s\n%s\n", literal(verb), \
			literal((form ~ /^\[options\]$/ ? "" : "[options] ") form)
		form = ""
		i += 2
	}
}

function section(name) {
	end_paragraph()
	printf ".SH %s\n", name
	has_paragraph = 0
}

# What is set in columns stays as it is; the rest is filled.
function end_paragraph(    i, is_set) {
	for (i = 1; i <= count; i++)
		if (lines[i] ~ /^ |   /)
			is_set = 1
	if (count == 0)
		return
	if (has_paragraph)
		print ".PP"
	has_paragraph = 1
	if (is_set)
		print ".nf"
	for (i = 1; i <= count; i++) {
		if (!is_set)
			print prose(lines[i])
		else
			print literal(lines[i])
	}
	if (is_set)
		print ".fi"
	count = 0
}

function option(line,    name, arg, help, fallback) {
	sub(/^ +/, "", line)
	match(line, /^--[a-z0-9-]+/)
	name = substr(line, 1, RLENGTH)
	line = substr(line, RLENGTH + 1)
	# The help stands in a column of its own, or after the word that the option takes.
	if (line !~ /^  /) {
		sub(/^ /, "", line)
		match(line, /^[^ ]+/)
		arg = substr(line, 1, RLENGTH)
		line = substr(line, RLENGTH + 1)
	}
	sub(/^ +/, "", line)
	help = line
	if (match(help, / \([^()]*\)$/) && arg != "") {
		fallback = substr(help, RSTART + 2, RLENGTH - 3)
		sub(/^default: /, "", fallback)
		help = substr(help, 1, RSTART - 1)
	}
	print ".TP"
	if (arg == "")
		printf ".B %s\n", literal(name)
	else
		printf ".BI %s \" %s\"\n", literal(name), literal(arg)
	printf "%s.\n", prose(capital(help))
	if (fallback != "") {
		print "Default:"
		printf ".BR \"%s\" .\n", literal(fallback)
	}
}

BEGIN {
	printf ".\\\" Made from `tidemq help %s` by tools/man_page.awk.\n", verb
	printf ".TH %s 1 \"%s\" \"tidemq %s\" \"User Commands\"\n", \
		toupper("tidemq-" verb), date, version
	part = "usage"
}

part == "usage" && /^usage: tidemq / {
	usage = substr($0, length("usage: tidemq " verb) + 2)
	next
}
part == "usage" && /^       / {
	usage = usage " " substr($0, 8)
	next
}
part == "usage" && $0 == "" {
	part = "summary"
	next
}
part == "summary" {
	sub(/\.$/, "")
	section("NAME")
	printf "tidemq\\-%s \\- %s\n", literal(verb), prose($0)
	section("SYNOPSIS")
	synopsis(usage)
	section("DESCRIPTION")
	count = 1
	lines[1] = capital($0 ".")
	part = "details"
	next
}
/^options, with their defaults in parentheses:$/ {
	section("OPTIONS")
	part = "options"
	next
}
/^examples:$/ {
	section("EXAMPLES")
	print ".nf"
	part = "examples"
	next
}
/^exit status: / {
	section("EXIT STATUS")
	n = split(substr($0, length("exit status: ") + 1), states, /, /)
	for (i = 1; i <= n; i++) {
		match(states[i], /^[0-9]+/)
		printf ".TP\n.B %s\n%s\n", substr(states[i], 1, RLENGTH), \
			prose(capital(substr(states[i], RLENGTH + 2) "."))
	}
	part = "end"
	next
}
part == "details" && $0 == "" {
	end_paragraph()
	next
}
part == "details" {
	lines[++count] = $0
	next
}
part == "options" && /^  --/ {
	option($0)
	next
}
part == "examples" && /^  / {
	print literal(substr($0, 3))
	next
}
part == "examples" && $0 == "" {
	print ".fi"
	next
}
part == "options" && $0 == "" { next }
part == "end" && $0 == "" { next }
{
	printf "man_page.awk: tidemq help %s: unexpected line: %s\n", verb, $0 >"/dev/stderr"
	failed = 1
	exit 1
}

END {
	if (failed)
		exit 1
	if (part != "end") {
		printf "man_page.awk: tidemq help %s has no exit status\n", verb >"/dev/stderr"
		exit 1
	}
	section("SEE ALSO")
	print ".BR tidemq (1)"
}
