# Completion of cloche in bash: what may come next is asked of the program itself.
_cloche() {
    local IFS=$'\n' word=${COMP_WORDS[COMP_CWORD]}
    # Readline splits at "=" and ","; a list of guards is given to it from its last comma on.
    COMPREPLY=($("${COMP_WORDS[0]}" __complete "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null | cut -f1))
    [[ $word != "=" ]] || COMPREPLY=()
}
complete -o default -F _cloche cloche
