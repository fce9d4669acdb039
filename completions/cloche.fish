# Completion of cloche in fish: what may come next is asked of the program itself.
function __cloche_complete
    set -l words (commandline -opc) (commandline -ct)
    $words[1] __complete $words[2..-1] 2>/dev/null
end
complete -c cloche -a '(__cloche_complete)'
