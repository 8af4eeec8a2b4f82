# shellcheck shell=bash
# Completion for bash; those for zsh and fish ask it. It reads what `tidemq help VERB` prints, and has no list of its own:
# verbs, options, the words that an option or a verb takes. Names of queues, topics and
# exchanges come from the broker, if one answers within a second.

# The names of queues, topics or exchanges: at most 1000 with what is typed in them.
_tidemq_names() {
	local i url=() match=()
	[ -z "$word" ] || match=(--match "$word")
	for ((i = 2; i + 1 < ${#line[@]}; i++)); do
		[ "${line[i]}" != --url ] || url=(--url "${line[i + 1]}")
	done
	timeout 1 tidemq list "$1" --max 1000 "${match[@]}" "${url[@]}" 2>/dev/null </dev/null | sed -n '2,$s/ .*//p'
}

# Whatever may stand for one word of the usage, such as QUEUE or in|out|both. LITERALS has the
# words before it.
_tidemq_candidates() {
	local part
	for part in ${1//|/ }; do
		case $part in
		QUEUE | QUEUE...) _tidemq_names queues ;;
		TOPIC | TOPIC...) _tidemq_names topics ;;
		EXCHANGE) _tidemq_names exchanges ;;
		NAME)
			case ${literals##* } in
			*queue) _tidemq_names queues ;;
			*topic) _tidemq_names topics ;;
			*exchange) _tidemq_names exchanges ;;
			esac
			;;
		FILE | DIR) echo "<$part>" ;;
		[a-z]*) echo "$part" ;;
		esac
	done
}

# Does the word fit into this place of the usage?
_tidemq_fits() {
	local part
	for part in ${1//|/ }; do
		case $part in
		[A-Z-]*) return 0 ;;
		"$2") return 0 ;;
		esac
	done
	return 1
}

# HELP WORD...: what may follow the words in one of the forms that the usage has.
_tidemq_words() {
	local usage form literals place token i
	usage=$(sed -n '/^usage: /,/^$/p' <<<"$1" | tr '\n' ' ')
	shift
	usage=${usage#usage: tidemq * }
	usage=${usage//\[options\]/}
	usage=${usage//[][]/}
	while read -r form; do
		literals='' place=1
		read -ra form <<<"$form"
		for ((i = 0; i < ${#form[@]}; i++)); do
			token=${form[i]}
			case $token in
			--)
				[ $# -lt "$place" ] || echo '<FILE>'
				return
				;;
			--*)
				i=$((i + 1))
				continue
				;;
			esac
			if [ "$place" -gt $# ]; then
				_tidemq_candidates "$token"
				break
			fi
			_tidemq_fits "$token" "${!place}" || break
			case $token in *[A-Z]*) ;; *) literals+=" ${!place}" ;; esac
			# "QUEUE..." stands for all that follow.
			case $token in *...) i=$((i - 1)) ;; esac
			place=$((place + 1))
		done
	done <<<"${usage// | /$'\n'}"
}

# The words before the cursor that are neither options nor their values; sets `value_of` when
# the cursor is at the value of an option.
_tidemq_split() {
	local i word
	words=() value_of=
	for ((i = 2; i + 1 < ${#line[@]}; i++)); do
		word=${line[i]}
		if [[ $word != --?* ]]; then
			words+=("$word")
		elif [[ $1 == *$'\n'"  $word "[^\ ]* ]]; then
			i=$((i + 1))
			[ $((i + 1)) -ne "${#line[@]}" ] || value_of=$word
		fi
	done
}

# LINE: what may follow it, a candidate a line; <DIR> or <FILE> where a path may stand. The
# completions for zsh and fish call this one.
_tidemq_follow() {
	local line word verb help found words value_of candidates candidate
	read -ra line <<<"$1"
	case $1 in *[[:blank:]]) line+=('') ;; esac
	word=${line[-1]} verb=${line[1]:-}
	if [ ${#line[@]} -eq 2 ] || { [ ${#line[@]} -eq 3 ] && [ "$verb" = help ]; }; then
		found="help $(tidemq help 2>/dev/null | sed -n 's/^  \([a-z-]*\)  *.*/\1/p')"
	else
		help=$(tidemq help "$verb" 2>/dev/null) || return 0
		_tidemq_split "$help"
		if [ -n "$value_of" ]; then
			found=$(sed -n "s/^  $value_of \([^ ]*\) .*/\1/p" <<<"$help")
			found=$(literals='' _tidemq_candidates "$found")
		elif [[ $word == -* ]]; then
			found=$(sed -n 's/^  \(--[a-z-]*\).*/\1/p' <<<"$help")
		else
			found=$(_tidemq_words "$help" "${words[@]}")
		fi
	fi
	read -rd '' -a candidates <<<"$found"
	for candidate in "${candidates[@]}"; do
		case $candidate in '<DIR>' | '<FILE>' | "$word"*) echo "$candidate" ;; esac
	done
}

# The words come from the line: COMP_WORDS is cut at each ':' and '='.
_tidemq() {
	local text=${COMP_LINE:0:COMP_POINT} candidates candidate word typed
	case $text in *[[:blank:]]) word='' ;; *) word=${text##*[[:blank:]]} ;; esac
	COMPREPLY=()
	mapfile -t candidates < <(_tidemq_follow "$text")
	# What is before the last ':' or '=' of the word is on the line already.
	typed=${word%"${word##*[:=]}"}
	for candidate in "${candidates[@]}"; do
		case $candidate in
		'<DIR>') mapfile -t COMPREPLY < <(compgen -d -- "$word") && compopt -o filenames 2>/dev/null ;;
		'<FILE>') mapfile -t COMPREPLY < <(compgen -f -- "$word") && compopt -o filenames 2>/dev/null ;;
		*)
			# A name may have signs of the shell in it.
			candidate=${candidate#"$typed"}
			COMPREPLY+=("${candidate@Q}")
			[[ $candidate == *[!A-Za-z0-9_./:@%+-]* ]] || COMPREPLY[-1]=$candidate
			;;
		esac
	done
	return 0
}
complete -F _tidemq tidemq
