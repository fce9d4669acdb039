// Written by tools/spec from spec/backups.def: change that.
/** Shell commands, run in the sandbox. */
export const backupCommands = {
  /** Print the paths that git ignores, each with a NUL; nothing if there is no repository. */
  ignored: 'cd -- "$CLOCHE_DIR" && if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then git ls-files -z --others --ignored --exclude-standard --directory; fi',
  /** Replace the old contents by those of CLOCHE_NEW, which were unpacked beside them. */
  exchange: 'cd -- "$CLOCHE_DIR" && find . -mindepth 1 -maxdepth 1 ! -name "$CLOCHE_NEW" -exec rm -rf -- {} + && cd -- "$CLOCHE_NEW" && find . -mindepth 1 -maxdepth 1 -exec mv -t .. -- {} + && cd .. && rmdir -- "$CLOCHE_NEW"'
}
