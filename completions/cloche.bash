# Completion of cloche in bash: what may come next is asked of the program itself.
_cloche() {
    local IFS=$'\n' words=("${COMP_WORDS[@]:1:COMP_CWORD}")
    # Readline splits at "=" and ","; a list of guards is given to it from its last comma on.
    if [[ $COMP_CWORD -gt 2 && ${COMP_WORDS[COMP_CWORD - 2]} == --?* && ${COMP_WORDS[COMP_CWORD - 1]} == "=" ]]; then
        unset "words[COMP_CWORD - 2]" # --option=value
    elif [[ $COMP_CWORD -gt 1 && ${COMP_WORDS[COMP_CWORD - 1]} == --?* && ${COMP_WORDS[COMP_CWORD]} == "=" ]]; then
        words[COMP_CWORD - 1]=""
    fi
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "${words[@]}" 2>/dev/null | cut -f1))
}
complete -o default -F _cloche cloche
