#compdef tidemq
# Completion for zsh. What may follow is found by that for bash, which reads the help of the
# program: there is one list.

_tidemq() {
	local line="${(j: :)${(@Q)words[1,CURRENT-1]}} ${(Q)PREFIX}"
	local -a found
	found=("${(@f)$(bash -c '. "$1"; _tidemq_follow "$2"' bash \
		"${TIDEMQ_COMPLETION:-@PREFIX@/share/bash-completion/completions/tidemq}" "$line" 2>/dev/null)}")
	(( $found[(Ie)<DIR>] )) && _files -/
	(( $found[(Ie)<FILE>] )) && _files
	found=("${(@)found:#(|<DIR>|<FILE>)}")
	(( $#found )) && compadd -- "${(@)found}"
}

_tidemq "$@"
