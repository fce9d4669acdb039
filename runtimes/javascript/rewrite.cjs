// A cell's text as scripts of the main realm. Its top-level declarations become properties of the
// global object, by assignments at the places of the declarations: so closures of all cells share a
// name, a later cell may declare it again, and places in stacks are the user's. Nothing is printed
// anew: the text is kept, and edited. A function of `host`, run in the agent's own realm.
'use strict'
const PARSING = { ecmaVersion: 'latest', sourceType: 'script', allowAwaitOutsideFunction: true, allowImportExportEverywhere: true, allowHashBang: true, preserveParens: true }
const ASYNC_HEAD = '(async () => {'
const ASYNC_TAIL = '\n})' // the agent calls it
const STRICT_HEAD = "'use strict';"
const SHIFTS_MAX = 200
const LINE_CHARS_MAX = 1000
const linesOf = (text) => text.split(/\r\n|[\n\r\u2028\u2029]/)
const blank = (text) => text.replace(/[^\r\n\u2028\u2029]/g, ' ')

// -- walking the tree

const isNode = (value) => value !== null && typeof value === 'object' && typeof value.type === 'string'
const FUNCTIONS = new Set(['FunctionDeclaration', 'FunctionExpression', 'ArrowFunctionExpression', 'StaticBlock'])

// visit(node, parent, isInside): isInside is true within a function.
function walk (node, visit, parent, isInside = false) {
  visit(node, parent, isInside)
  const within = isInside || FUNCTIONS.has(node.type)
  for (const key of Object.keys(node)) {
    const value = node[key]
    if (Array.isArray(value)) for (const item of value) isNode(item) && walk(item, visit, node, within)
    else if (isNode(value)) walk(value, visit, node, within)
  }
}

// The names that a pattern, or the target of an assignment, gives a value to.
const PARTS = {
  __proto__: null,
  Identifier: (node, found) => found.push(node.name),
  ParenthesizedExpression: (node, found) => collect(node.expression, found),
  ObjectPattern: (node, found) => node.properties.forEach((property) => collect(property.value ?? property, found)),
  ArrayPattern: (node, found) => node.elements.forEach((element) => element && collect(element, found)),
  AssignmentPattern: (node, found) => collect(node.left, found),
  RestElement: (node, found) => collect(node.argument, found)
}
const collect = (node, found) => PARTS[node.type]?.(node, found)
function namesOf (node) {
  const found = []
  collect(node, found)
  return found
}

const ASSIGNED = {
  __proto__: null,
  AssignmentExpression: (node) => node.left,
  UpdateExpression: (node) => node.argument,
  ForInStatement: (node) => node.left,
  ForOfStatement: (node) => node.left
}
const isLoop = ({ type }) => type === 'ForStatement' || type === 'ForInStatement' || type === 'ForOfStatement'
const isAwait = ({ type, await: isAsync }) => type === 'AwaitExpression' || (type === 'ForOfStatement' && isAsync)

// The name in a call like `(function (E) {…})(E || {})`: a translated enum or namespace, which
// starts afresh with each cell.
function mergedName (expression) {
  const last = expression?.type === 'CallExpression' ? expression.arguments[expression.arguments.length - 1] : undefined
  return last?.type === 'LogicalExpression' && last.left.type === 'Identifier' ? last.left.name : undefined
}

// `var S` after everything is the end of a namespace's translation.
const isMergedVar = ({ type, declarations }, merged) => type === 'VariableDeclaration' && declarations.every(({ id, init }) => init === null && merged.has(id.name))

// -- editing

class Cell {
  edits = []
  functions = [] // places of top-level functions
  kinds = new Map() // name: let, const, class, function, var, import
  empty = [] // names that are undefined when the cell begins
  imports = []
  assigned = new Set()
  merged = new Set() // names of translated namespaces
  isAsync = false
  value // the expression that is the last statement

  constructor (source, tree) {
    this.source = source
    this.tree = tree
    this.isStrict = tree.body.some(({ directive }) => directive === 'use strict')
  }

  insert (at, text) { this.edits.push({ at, end: at, text }) }
  replace (at, end, text) { this.edits.push({ at, end, text: text + blank(this.source.slice(at + text.length, end)) }) }

  // All of the cell except the top-level declarations.
  survey () {
    walk(this.tree, (node, parent, isInside) => {
      const target = ASSIGNED[node.type]?.(node)
      if (target !== undefined) for (const name of namesOf(target)) this.assigned.add(name)
      if (isInside) return
      if (isAwait(node)) this.isAsync = true
      if (node.type === 'VariableDeclaration' && node.kind === 'var' && parent.type !== 'Program' && parent.type !== 'ExportNamedDeclaration') this.nestedVar(node, parent)
    })
  }

  declare (kind, names) {
    for (const name of names) if (!(kind === 'var' && this.kinds.has(name))) this.kinds.set(name, kind)
  }

  edit () {
    if (this.source.startsWith('#!')) this.replace(0, /^.*/.exec(this.source)[0].length, '')
    this.survey()
    for (const { expression } of this.tree.body) if (mergedName(expression) !== undefined) this.merged.add(mergedName(expression))
    let end = 0
    const last = this.tree.body.filter((node) => node.type !== 'EmptyStatement' && !isMergedVar(node, this.merged)).pop()
    for (const node of this.tree.body) {
      this.statement(node, end, node === last)
      end = node.end
    }
  }

  statement (node, before, isLast) {
    const handle = STATEMENTS[node.type]
    if (handle !== undefined) handle(this, node, before, isLast)
    else if (isLast && node.type === 'ExpressionStatement') this.result(node.expression, before)
  }

  // An async function returns the value in an array: it may be a promise or the like.
  result (expression, before) {
    this.value = expression
    if (!this.isAsync) return
    this.insert(before, ';return [(')
    this.insert(expression.end, ')]')
  }

  // Text before the declaration's end on the last line keeps its column.
  variable (node) {
    const [first] = node.declarations
    const isPattern = first.id.type !== 'Identifier'
    this.replace(node.start, node.start + node.kind.length, isPattern ? ';(' : ';')
    if (isPattern) this.insert(node.declarations[node.declarations.length - 1].end, ')')
    if (this.source[node.end - 1] !== ';') this.insert(node.end, ';')
    for (const declarator of node.declarations) {
      this.declare(node.kind, namesOf(declarator.id))
      if (declarator.id.type === 'Identifier' && this.isNew(node.kind, declarator)) this.empty.push(declarator.id.name)
    }
  }

  isNew (kind, { id, init }) {
    return init === null ? kind === 'let' || this.merged.has(id.name) : mergedName(init) === id.name
  }

  // In a block or a loop's head. `!` and not `;` divides it from the text before it, because it may
  // be the body of an `if`.
  nestedVar (node, parent) {
    const [first] = node.declarations
    const isHead = isLoop(parent) && node !== parent.body
    const isPattern = !isHead && first.id.type !== 'Identifier'
    this.replace(node.start, node.start + 3, isPattern ? '!(' : '')
    if (isPattern) this.insert(node.declarations[node.declarations.length - 1].end, ')')
    if (!isHead && this.source[node.end - 1] !== ';') this.insert(node.end, ';')
    for (const { id } of node.declarations) this.declare('var', namesOf(id))
  }

  // As an expression, whose beginning is put after the previous statement: its own lines stay as they are.
  classOf (node, before) {
    this.declare('class', [node.id.name])
    this.insert(before, `;${node.id.name} =`)
    this.insert(node.end, ';')
  }

  functionOf (node) {
    this.declare('function', [node.id.name])
    this.functions.push(node)
    this.replace(node.start, node.end, ';')
  }

  exported (node, before, isLast) {
    const { declaration } = node
    if (declaration === null) {
      if (node.source !== null) throw this.refuse(node, 'a cell cannot export from another module')
      return this.replace(node.start, node.end, ';')
    }
    const isReturned = isLast && this.isAsync
    const isNamed = declaration.type === 'VariableDeclaration' || (declaration.type.endsWith('Declaration') && declaration.id !== null)
    this.replace(node.start, declaration.start, isNamed || isReturned ? '' : ';(')
    if (isNamed) return STATEMENTS[declaration.type](this, declaration, before, isLast)
    if (isLast) this.result(declaration, before)
    if (!isReturned) this.insert(declaration.end, ')')
  }

  importOf (node) {
    const bindings = node.specifiers.map(({ type, imported, local }) => ({
      local: local.name,
      imported: type === 'ImportDefaultSpecifier' ? 'default' : type === 'ImportNamespaceSpecifier' ? null : imported.name ?? imported.value
    }))
    this.declare('import', bindings.map(({ local }) => local))
    const attributes = (node.attributes ?? []).map(({ key, value }) => [key.name ?? key.value, value.value])
    this.imports.push({ specifier: node.source.value, attributes, bindings })
    this.replace(node.start, node.end, ';')
  }

  refuse (node, message) {
    const before = linesOf(this.source.slice(0, node.start))
    return new NoSyntax(message, before.length, before[before.length - 1].length + 1)
  }

  apply () {
    let text = ''
    let at = 0
    for (const edit of this.edits.sort((a, b) => a.at - b.at || a.end - b.end)) {
      text += this.source.slice(at, edit.at) + edit.text
      at = edit.end
    }
    return text + this.source.slice(at)
  }

  // Number of characters before the first line that the user did not write.
  headLength () { return this.edits.reduce((sum, { at, end, text }) => at === 0 && end === 0 ? sum + text.length : sum, 0) }

  // Places where a line became longer: [line, column from 0, by how much], in order. The text
  // before the first line is not included.
  shifts () {
    const isFollowed = ({ at, end }) => at === end && at > 0 && /^[^\r\n\u2028\u2029]*\S/.test(this.source.slice(at, at + LINE_CHARS_MAX))
    return this.edits.filter(isFollowed).slice(0, SHIFTS_MAX).map(({ at, text }) => {
      const before = linesOf(this.source.slice(0, at))
      return [before.length, before[before.length - 1].length, text.length]
    })
  }

  // Only the functions, each at its place.
  functionsText () {
    if (this.functions.length === 0) return undefined
    let text = ''
    let at = 0
    for (const { start, end } of this.functions) {
      text += blank(this.source.slice(at, start)) + this.source.slice(start, end)
      at = end
    }
    return text
  }
}

const STATEMENTS = {
  __proto__: null,
  VariableDeclaration: (cell, node) => /^(let|const|var)$/.test(node.kind) && cell.variable(node),
  ClassDeclaration: (cell, node, before) => cell.classOf(node, before),
  FunctionDeclaration: (cell, node) => cell.functionOf(node),
  ImportDeclaration: (cell, node) => cell.importOf(node),
  ExportNamedDeclaration: (cell, node, before, isLast) => cell.exported(node, before, isLast),
  ExportDefaultDeclaration: (cell, node, before, isLast) => cell.exported(node, before, isLast),
  ExportAllDeclaration: (cell, node) => { throw cell.refuse(node, 'a cell cannot export from another module') }
}

// -- parsing

// A syntax error with its place; not yet the error that the user sees.
class NoSyntax {
  constructor (message, line, column) {
    this.text = message
    this.line = line
    this.column = column
  }
}

function parse (source) {
  try {
    return host.acorn().parse(source, PARSING)
  } catch (thrown) {
    if (thrown.loc === undefined) throw new NoSyntax(`the code is nested too deeply: ${thrown.message}`, 1, 1)
    throw new NoSyntax(thrown.message.replace(/ \(\d+:\d+\)$/, ''), thrown.loc.line, thrown.loc.column + 1)
  }
}

// `{a: 1}` is meant as an object in a notebook, and is a block with a label to JavaScript.
const looksLikeObject = (code) => /^\s*\{/.test(code) && !/;\s*$/.test(code)
function asObject (code) {
  try {
    const tree = parse(`(${code}\n)`)
    return tree.body.length === 1 && tree.body[0].expression?.expression?.type === 'ObjectExpression' ? tree : undefined
  } catch (thrown) {
    if (thrown instanceof NoSyntax) return undefined
    throw thrown
  }
}

// {script, head, functions, functionsHead, kinds, empty, imports, assigned, isAsync, hasValue,
// isStrict, shifts}: `head` is the number of characters before the first line.
function rewrite (code) {
  const object = looksLikeObject(code) ? asObject(code) : undefined
  const cell = new Cell(object ? `(${code}\n)` : code, object ?? parse(code))
  cell.edit()
  const { kinds, empty, imports, assigned, isAsync, isStrict } = cell
  const edited = cell.apply()
  const functions = cell.functionsText()
  return {
    script: isAsync ? ASYNC_HEAD + edited + ASYNC_TAIL : edited,
    head: cell.headLength() + (object ? 1 : 0) + (isAsync ? ASYNC_HEAD.length : 0),
    functions: isStrict && functions !== undefined ? STRICT_HEAD + functions : functions,
    functionsHead: isStrict ? STRICT_HEAD.length : 0,
    shifts: cell.shifts(),
    kinds, empty, imports, assigned, isAsync, isStrict, hasValue: cell.value !== undefined
  }
}

// The user's column, from 1, for a column of V8's.
function columnOf (shifts, line, column) {
  let shift = 0
  for (const [where, from, by] of shifts) {
    const reached = column - 1 - shift - from
    if (where === line && reached > 0) shift += Math.min(by, reached)
  }
  return column - shift
}

return { rewrite, columnOf, linesOf, looksLikeObject, NoSyntax, PARSING }
