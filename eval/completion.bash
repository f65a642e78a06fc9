# Tab completion of the options of eval/run.py, ask.py, serve.py and doctor.py, for bash (zsh: after bashcompinit).
#
#     source eval/completion.bash        in the project's folder, with its environment activated
#
# Hydra's own script (python eval/run.py -sc install=bash) is not used: it starts any other Python script that stands on
# the line when Tab is pressed. Here only eval/run.py is asked, and nothing is done for other scripts.

_mas_harness() {
    case "${COMP_WORDS[1]}" in eval/run.py | eval/ask.py | eval/serve.py | eval/doctor.py) ;; *) return ;; esac
    local word=${COMP_WORDS[COMP_CWORD]} given="" each
    for each in "${COMP_WORDS[@]:2:COMP_CWORD-2}"; do # earlier options decide which ones there are
        [[ $each =~ ^[a-z0-9_./-]+=[a-zA-Z0-9_./-]+$ ]] && given+="$each "
    done
    local choices=$(COMP_LINE="python eval/run.py $given$word" "${COMP_WORDS[0]}" eval/run.py -sc query=bash 2>/dev/null)
    COMPREPLY=($(compgen -W "$choices" -- "$word"))
}

COMP_WORDBREAKS=${COMP_WORDBREAKS//=/} # model=off is one word
complete -o nospace -o default -F _mas_harness python python3
