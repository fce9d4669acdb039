// Maps args, holes, kwargs and order of a request to the arguments of a call. A function of `host`,
// run in the agent's own realm.
'use strict'
const { scan } = host
const fail = (what) => { throw new host.TypeError(what) }
const isObject = (value) => value !== null && typeof value === 'object' && !Array.isArray(value)

// The index of the keyword's parameter, or -1 for the options object. A name of the function's own
// comes first, then the position in the caller's schema.
function placeOf (name, value, params, order) {
  const own = params.findIndex((p) => p.name === name && !p.rest)
  if (own >= 0) return own
  const last = params.length - 1
  const at = order.indexOf(name)
  if (at >= 0 && !(params[last]?.isOptions && (at > last || (at === last && !isObject(value))))) return at
  if (params[last]?.isOptions) return -1
  return fail(`unknown argument '${name}'`)
}

function addOptions (args, last, options) {
  const [first] = Object.keys(options)
  if (first === undefined) return
  if (last in args && !isObject(args[last])) fail(`unknown argument '${first}'`)
  args[last] = Object.assign(new host.Object(), args[last], options)
}

function requireGiven (args, params, at) {
  const { name, rest, optional, isOptions } = params[at] ?? {}
  if (name && !rest && !optional && !isOptions && !(at in args)) fail(`missing required argument '${name}'`)
}

// Keywords go to their places in args, which may have holes. Calls without either are as lenient as the language.
function place (args, params, holes, kwargs, order) {
  const names = Object.keys(kwargs)
  const last = params.length - 1
  const most = Math.max(params.length, order.length)
  const options = {}
  for (const name of names) {
    const at = placeOf(name, kwargs[name], params, order)
    if (at in args) fail(`argument '${name}' is given twice`)
    if (at < 0) options[name] = kwargs[name]
    else args[at] = kwargs[name]
  }
  addOptions(args, last, options)
  for (const at of names.length ? params.keys() : holes) requireGiven(args, params, at)
  if (names.length && args.length > most && !params[last]?.rest) fail(`${args.length} arguments, at most ${most} are taken`)
}

// The arguments for a function and a request; onSource receives the source of the signature, also
// if the arguments do not fit.
function bind (fn, request, onSource) {
  const { holes = [], kwargs, order } = request
  const params = scan.parameters(Function.prototype.toString.call(fn))
  const args = Array.from(request.args)
  onSource(order ? 'schema' : params ? 'inferred' : 'convention')
  for (const at of holes) delete args[at]
  if (params || order) place(args, params ?? [], holes, kwargs, order ?? [])
  else if (Object.keys(kwargs).length) args.push(Object.assign(new host.Object(), kwargs))
  return Array.from(args)
}

return { bind }
