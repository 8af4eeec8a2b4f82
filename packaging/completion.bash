# Completion for bash: verbs and options, as `tidemq help` lists them.
_tidemq() {
	local word=${COMP_WORDS[COMP_CWORD]} verb=${COMP_WORDS[1]:-} words
	if [ "$COMP_CWORD" -eq 1 ] || { [ "$COMP_CWORD" -eq 2 ] && [ "$verb" = help ]; }; then
		words="help $(tidemq help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  *.*/\1/p')"
	elif [[ $word == -* ]]; then
		words=$(tidemq help "$verb" 2>/dev/null | sed -n 's/^  \(--[a-z-]*\).*/\1/p')
	else
		case $verb in
		list) words='exchanges queues topics groups bindings consumers connections locks vhosts history now rules' ;;
		declare | delete) words='exchange queue topic' ;;
		user) words='add passwd delete grant revoke set list' ;;
		rules) words='reload status top show log rollback shadow recent replay simulate' ;;
		esac
	fi
	# shellcheck disable=SC2207 # words without blanks
	COMPREPLY=($(compgen -W "${words:-}" -- "$word"))
}
complete -o default -F _tidemq tidemq
