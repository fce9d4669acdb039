import type { PathMatcher } from './paths.js'
import type { FetchMiddleware, FetchOriginRule, FetchRouteRule } from './types.js'
import { isIP } from 'node:net'
import { compilePath } from './paths.js'
import { hostOf, parseUrl, portOf, protocolOf } from './url.js'

interface Route<C> {
  matches: PathMatcher
  methods: ReadonlySet<string> | undefined
  middleware: FetchMiddleware<C> | undefined
}

interface Rule<C> {
  hosts: ReadonlySet<string>
  /** The suffixes after the `*` of patterns, with their dot. */
  suffixes: readonly string[]
  ports: ReadonlySet<number> | undefined
  httpsOnly: boolean
  routes: Array<Route<C>>
  middleware: FetchMiddleware<C> | undefined
}

export type Rules<C> = ReadonlyArray<Rule<C>>

/** The result of the rules: none (no rule names the host), no (with the reason), or yes. */
export type Match<C> =
  | { verdict: 'none' }
  | { verdict: 'deny', why: string }
  | { verdict: 'allow', params: Record<string, string>, middleware: Array<FetchMiddleware<C>> }

// -- compiling

const asList = <T>(value: T | readonly T[]): readonly T[] => Array.isArray(value) ? value as readonly T[] : [value as T]

function canonicalHost (text: unknown, where: string): string {
  const shown = JSON.stringify(text) ?? typeof text
  const bad = new TypeError(`${where}: ${shown} is no host, such as "example.com", "*.example.com" or "192.0.2.1"`)
  if (typeof text !== 'string' || text === '' || /[/?#@\\*\s]/.test(text)) throw bad
  try {
    const url = parseUrl(`http://${isIP(text) === 6 ? `[${text}]` : text}:1/`)
    if (url.port === '1') return hostOf(url)
  } catch {}
  throw bad
}

function compileSuffix (text: string, where: string): string {
  const host = canonicalHost(text.slice(2), where)
  if (isIP(host) !== 0) throw new TypeError(`${where}: ${JSON.stringify(text)}: addresses have no subdomains`)
  return `.${host}`
}

function compilePorts (value: unknown, where: string): Set<number> | undefined {
  if (value === undefined) return undefined
  const isPort = (port: unknown): port is number => typeof port === 'number' && Number.isInteger(port) && port >= 1 && port <= 65535
  const ports = asList(value)
  if (!ports.every(isPort)) throw new TypeError(`${where} must be a number from 1 to 65535, or several`)
  return new Set(ports)
}

function compileMethods (value: unknown, known: ReadonlySet<string>, where: string): Set<string> | undefined {
  if (value === undefined) return undefined
  if (asList(value).includes('*')) return undefined
  const methods = asList(value).map((name) => typeof name === 'string' ? name.toUpperCase() : JSON.stringify(name) ?? typeof name)
  for (const name of methods) {
    if (!known.has(name)) throw new TypeError(`${where}: "${name}" is not among the methods allowed at all (${[...known].join(', ')})`)
  }
  return new Set(methods)
}

function checkMembers (value: unknown, known: readonly string[], where: string): void {
  if (typeof value !== 'object' || value === null) throw new TypeError(`${where} must be an object`)
  for (const name of Object.keys(value)) {
    if (!known.includes(name)) throw new TypeError(`${where} has no ${JSON.stringify(name)}; known are ${known.join(', ')}`)
  }
  const { middleware } = value as { middleware?: unknown }
  if (middleware !== undefined && typeof middleware !== 'function') throw new TypeError(`${where}.middleware must be a function`)
}

function compileRoute<C> (route: FetchRouteRule<C>, known: ReadonlySet<string>, where: string): Route<C> {
  checkMembers(route, ['path', 'methods', 'middleware'], where)
  return {
    matches: compilePath(route.path, `${where}.path`),
    methods: compileMethods(route.methods, known, `${where}.methods`),
    middleware: route.middleware
  }
}

function compileRule<C> (rule: FetchOriginRule<C>, known: ReadonlySet<string>, where: string): Rule<C> {
  checkMembers(rule, ['host', 'port', 'httpsOnly', 'routes', 'middleware'], where)
  if (!Array.isArray(rule.routes)) throw new TypeError(`${where}.routes must be an array`)
  if (rule.httpsOnly !== undefined && typeof rule.httpsOnly !== 'boolean') throw new TypeError(`${where}.httpsOnly must be true or false`)
  const isPattern = (host: unknown): host is string => typeof host === 'string' && host.startsWith('*.')
  const hosts = asList<unknown>(rule.host)
  return {
    hosts: new Set(hosts.filter((host) => !isPattern(host)).map((host) => canonicalHost(host, `${where}.host`))),
    suffixes: hosts.filter(isPattern).map((host) => compileSuffix(host, `${where}.host`)),
    ports: compilePorts(rule.port, `${where}.port`),
    httpsOnly: rule.httpsOnly ?? true,
    routes: (rule.routes as Array<FetchRouteRule<C>>).map((route, i) => compileRoute(route, known, `${where}.routes[${i}]`)),
    middleware: rule.middleware
  }
}

/** `known`: the methods allowed at all. Throws TypeError, which names the place. */
export function compileRules<C> (
  rules: FetchOriginRule<C> | ReadonlyArray<FetchOriginRule<C>>, known: ReadonlySet<string>
): Rules<C> {
  return asList<FetchOriginRule<C>>(rules).map((rule, i) => compileRule(rule, known, `createSafeFetch: rules[${i}]`))
}

// -- matching

function isUnder (host: string, suffix: string): boolean {
  const label = host.slice(0, -suffix.length)
  return host.endsWith(suffix) && label !== '' && !label.includes('.')
}

/** Rules of exactly this host, or else those with a pattern for it. */
function rulesOf<C> (rules: Rules<C>, host: string): Rules<C> {
  const exact = rules.filter(({ hosts }) => hosts.has(host))
  return exact.length > 0 ? exact : rules.filter(({ suffixes }) => suffixes.some((suffix) => isUnder(host, suffix)))
}

function takesOrigin<C> (rule: Rule<C>, url: URL): boolean {
  if (rule.httpsOnly && url.protocol !== 'https:') return false
  return rule.ports === undefined ? url.port === '' : rule.ports.has(portOf(url))
}

export function matchRules<C> (rules: Rules<C>, url: URL, method: string): Match<C> {
  const host = hostOf(url)
  const named = rulesOf(rules, host)
  if (named.length === 0) return { verdict: 'none' }

  const open = named.filter((rule) => takesOrigin(rule, url))
  if (open.length === 0) {
    return { verdict: 'deny', why: `no rule allows ${protocolOf(url)} on port ${portOf(url)} of ${JSON.stringify(host)}` }
  }
  for (const rule of open) {
    for (const route of rule.routes) {
      const params = route.methods === undefined || route.methods.has(method) ? route.matches(url.pathname) : undefined
      const middleware = [rule.middleware, route.middleware].filter((one) => one !== undefined)
      if (params !== undefined) return { verdict: 'allow', params, middleware }
    }
  }
  return { verdict: 'deny', why: `no route allows ${method} ${url.pathname} on ${JSON.stringify(host)}` }
}
