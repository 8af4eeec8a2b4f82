# embed_scripts.awk FILE...: Lua scripts as C, on standard output: core/store/scripts.h
# declares them. Redis gets them with each request, so comments and indentation are left out.
BEGIN { print "#include \"store/scripts.h\"" }
FNR == 1 {
	if (NR > 1) print ");"
	name = FILENAME
	gsub(/.*\/|\.lua$/, "", name)
	print "const struct slice script_" name " = SLICE("
}
{ sub(/^[ \t]+/, "") }
/^--/ || /^$/ { next }
{
	gsub(/[\\"]/, "\\\\&")
	print "\t\"" $0 "\\n\""
}
END { print ");" }
