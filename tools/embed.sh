#!/bin/sh
# embed.sh FILE...: the files as a table for the assembler, on standard output. See
# core/http/http_files.c. Their names are those without their folders.
set -eu

label() { printf '.L%s%d' "$1" "$2"; }

echo '	.section .rodata'
echo '	.balign 4'
echo '	.globl http_embedded'
echo 'http_embedded:'
i=0
for file in "$@"; do
	for part in name sum bytes; do echo "	.long $(label $part $i)-http_embedded"; done
	echo "	.long $(label end $i)-$(label bytes $i)"
	i=$((i + 1))
done
echo '	.globl http_embedded_count'
echo 'http_embedded_count:'
echo "	.long $i"
i=0
for file in "$@"; do
	echo "$(label name $i): .asciz \"${file##*/}\""
	echo "$(label sum $i): .asciz \"$(sha256sum "$file" | cut -c1-16)\""
	echo "$(label bytes $i): .incbin \"$file\""
	echo "$(label end $i): .byte 0"
	i=$((i + 1))
done
echo '	.section .note.GNU-stack,"",%progbits'
