// The code as a function's body, and its logs. Output of console and logging goes to standard
// output as lines with a mark of this execution; all other lines were printed by the code itself.

export type Language = 'javascript' | 'typescript' | 'python'

/** Set if the environment is minimal, so that code can check. */
export const MARKER = 'CLOCHE_SUBPROCESS'

interface Program {
  language: Language
  code: string
  function?: string
  args: unknown[]
}

/** Methods of console, and the level their lines have. */
const LEVELS = { log: 'log', info: 'log', warn: 'warn', error: 'error', debug: 'debug', trace: 'trace' }

// All on one line, so that the user's lines keep their numbers.
const javascript = (code: string, mark: string, isMinimal: boolean): string => {
  const environment = `for (const name of Object.keys(process.env)) if (name !== 'PATH') delete process.env[name]; process.env.${MARKER} = '1';`
  const logs = 'const { stringify } = JSON, write = process.stdout.write.bind(process.stdout); ' +
    'const shown = (value) => { try { return stringify(value) ?? String(value) } catch { return String(value) } }; ' +
    `for (const [name, level] of Object.entries(${JSON.stringify(LEVELS)})) console[name] = (...args) => { write(\`${mark} \${level} \${args.map(shown).join(' ')}\\n\`) };`
  return `'use strict'; { ${isMinimal ? environment : ''} ${logs} } module.exports = async () => {${code}\n}`
}

// The code is sent as an argument: Python's indentation would change it within a function. Its
// variables are global, as in a script, so that its functions and comprehensions see them.
const python = `
def __cloche__(source, mark, minimal):
    import ast, logging, os, sys, types

    SCOPES = (ast.FunctionDef, ast.AsyncFunctionDef, ast.Lambda, ast.ClassDef)
    INNER = SCOPES + (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)

    class Marked(logging.Handler):
        def emit(self, record):
            level = {"WARNING": "warn", "CRITICAL": "error"}.get(record.levelname, record.levelname.lower())
            for line in self.format(record).split("\\n"):
                sys.stdout.write(mark + " " + level + " " + line + "\\n")

    def awaits(nodes):
        for node in nodes:
            if isinstance(node, (ast.Await, ast.AsyncFor, ast.AsyncWith)) or isinstance(node, ast.comprehension) and node.is_async:
                return True
            if not isinstance(node, SCOPES) and awaits(ast.iter_child_nodes(node)):
                return True
        return False

    def own(node):
        yield node
        if not isinstance(node, INNER):
            for child in ast.iter_child_nodes(node):
                yield from own(child)

    def bound(node):
        if isinstance(node, ast.Name) and isinstance(node.ctx, (ast.Store, ast.Del)):
            yield node.id
        elif isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (a.asname or a.name.split(".")[0] for a in node.names)
        elif isinstance(node, ast.ExceptHandler) and node.name:
            yield node.name

    def is_module_only(node):
        return isinstance(node, ast.ImportFrom) and (node.module == "__future__" or any(a.name == "*" for a in node.names))

    def compiled():
        tree = ast.parse(source, "main.py")
        holder = ast.parse(("async def" if awaits(tree.body) else "def") + " __body__(): pass", "main.py")
        function = holder.body[0]
        inside = [n for n in tree.body if not is_module_only(n)]
        names = sorted({name for top in inside for node in own(top) for name in bound(node)})
        declared = [ast.copy_location(ast.Global(names=names), function)] if names else []
        function.body = declared + [n for n in inside if not isinstance(n, ast.Global)] or function.body
        holder.body = [n for n in tree.body if is_module_only(n)] + [function]
        return compile(holder, "main.py", "exec", dont_inherit=True)

    if minimal:
        for name in [n for n in os.environ if n != "PATH"]:
            del os.environ[name]
        os.environ["${MARKER}"] = "1"
    handler = Marked()
    handler.setFormatter(logging.Formatter("%(message)s"))
    logging.basicConfig(level=logging.DEBUG, handlers=[handler], force=True)
    logging.getLogger("asyncio").setLevel(logging.WARNING)
    space = globals()
    exec(compiled(), space)
    result = space.pop("__body__")()
    if not isinstance(result, types.CoroutineType):
        return result
    import asyncio
    return asyncio.run(result)
`

export function programOf (language: Language, code: string, mark: string, isMinimal: boolean): Program {
  if (language === 'python') return { language, code: python, function: '__cloche__', args: [code, mark, isMinimal] }
  return { language, code: javascript(code, mark, isMinimal), args: [] }
}

/** Lines with their level or stream as a prefix. */
export function logsOf (stdout: string, stderr: string, mark: string): string[] {
  const marked = new RegExp(`^${mark} (\\w+) (.*)$`, 's')
  const lines = (text: string): string[] => text === '' ? [] : text.replace(/\n$/, '').split('\n')
  return [
    ...lines(stdout).map((line) => {
      const found = marked.exec(line)
      return found === null ? `[stdout] ${line}` : `[${found[1]}] ${found[2]}`
    }),
    ...lines(stderr).map((line) => `[stderr] ${line}`)
  ]
}
