# Completion for fish. What may follow is found by that for bash, which reads the help of the
# program: there is one list.

function __tidemq_complete
    set -l script @PREFIX@/share/bash-completion/completions/tidemq
    set -q TIDEMQ_COMPLETION; and set script $TIDEMQ_COMPLETION
    for found in (bash -c '. "$1"; _tidemq_follow "$2"' bash $script (commandline -cp | string collect) 2>/dev/null)
        switch $found
            case '<DIR>'
                __fish_complete_directories (commandline -ct) ''
            case '<FILE>'
                __fish_complete_path (commandline -ct)
            case '*'
                echo $found
        end
    end
end

complete -c tidemq -f -a '(__tidemq_complete)'
