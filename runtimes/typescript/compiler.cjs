// TypeScript to JavaScript by its own compiler: for decorators, JSX, `accessor` and `using`, which
// cannot be blanked out. A function of `host`, run in the agent's own realm, where the compiler
// finds no file system. It costs a cold call a quarter of a second, and 0.15 s more without the code
// that precompile.cjs keeps.
'use strict'

let library
function load () {
  const module = { exports: {} }
  const unpack = (name) => host.require('node:zlib').brotliDecompressSync(host.readFile(name))
  const text = `(function (exports, require, module) {${unpack('typescript.js.br')}\n})`
  const compiled = host.hasFile('typescript.code.br') ? unpack('typescript.code.br') : undefined // a build has it if it found Node
  host.evaluateScript('typescript.js', text, compiled)(module.exports, undefined, module)
  return module.exports
}

// The library's names for the settings of tsconfig.json, and the defaults.
function optionsOf (settings, isCell) {
  const { ScriptTarget, ModuleKind, ModuleDetectionKind, JsxEmit } = library
  const { experimentalDecorators = false, emitDecoratorMetadata = false, jsx, jsxFactory, jsxFragmentFactory, jsxImportSource, target, useDefineForClassFields } = settings
  const isAutomatic = ['react-jsx', 'react-jsxdev', 'preserve'].includes(jsx)
  return {
    target: ScriptTarget.ES2022,
    module: ModuleKind.Preserve,
    moduleDetection: ModuleDetectionKind.Force, // or `await` at the top would be a name
    sourceMap: true,
    verbatimModuleSyntax: isCell,
    useDefineForClassFields: useDefineForClassFields ?? !/^es(3|5|6|20(1\d|2[01]))$/i.test(target),
    experimentalDecorators,
    emitDecoratorMetadata,
    jsx: isAutomatic ? JsxEmit.ReactJSX : JsxEmit.React,
    ...Object.fromEntries(Object.entries({ jsxFactory, jsxFragmentFactory, jsxImportSource }).filter(([, value]) => typeof value === 'string'))
  }
}

// Failures in the form of the other library's, with the place in the given code.
function failure (code, start, message) {
  const before = code.slice(0, start).split(/\r\n|[\n\r\u2028\u2029]/)
  return { code: 'InvalidSyntax', message, startLine: before.length, startColumn: before[before.length - 1].length, isExact: true }
}

const IMPORT_OF_JSX = /^import \{ ((?:\w+ as _\w+(?:, )?)+) \} from ("[^"\n]+");$/gm

// The compiler makes modules; code that was none becomes none again.
function asWritten (printed, scan) {
  const bare = printed.replace(/\n\/\/# sourceMappingURL=.*\s*$/, '\n').replace(/\nexport \{\};\s*$/, '\n')
  const without = bare.replace(IMPORT_OF_JSX, '')
  if (without === bare || scan(without).isModule) return bare
  return bare.replace(IMPORT_OF_JSX, (all, names, from) => `const { ${names.replace(/ as /g, ': ')} } = require(${from});`)
}

// The compiler silently drops such a decorator.
const refuseParameters = (code) => () => (file) => {
  const visit = (node) => {
    const decorator = library.isParameter(node) ? node.modifiers?.find(library.isDecorator) : undefined
    if (decorator !== undefined) {
      const [name] = /^@\s*[\w$.]*/.exec(code.slice(decorator.getStart(file)))
      throw failure(code, decorator.getStart(file), `decorators of parameters need "experimentalDecorators" in a tsconfig.json: ${name}`)
    }
    library.forEachChild(node, visit)
  }
  visit(file)
  return file
}

// {code, mappings}; throws the same errors as the other library.
function compile (code, { isJSX, isCell, settings }) {
  library ??= load()
  const before = code.includes('@') && settings.experimentalDecorators !== true ? [refuseParameters(code)] : []
  let made
  try {
    made = library.transpileModule(code, { fileName: isJSX ? 'main.tsx' : 'main.ts', reportDiagnostics: true, transformers: { before }, compilerOptions: optionsOf(settings, isCell) })
  } catch (thrown) {
    if (thrown?.isExact) throw thrown
    throw { code: 'Overflow', message: `the code is too large or nested too deeply: ${thrown.message}`, startLine: 1, startColumn: 0 } // eslint-disable-line no-throw-literal
  }
  const wrong = made.diagnostics.find(({ file }) => file !== undefined)
  if (wrong !== undefined) throw failure(code, wrong.start, library.flattenDiagnosticMessageText(wrong.messageText, '\n').replace(/\.$/, ''))
  return { code: asWritten(made.outputText, host.scan), mappings: JSON.parse(made.sourceMapText).mappings }
}

return { compile }
