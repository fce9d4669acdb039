import type { Network } from './addresses.js'
import type { FetchMiddleware, SafeFetchLookup, SafeFetchOptions, SafeFetchPolicy, SafeFetchRequest } from './types.js'
import type { Rules } from './rules.js'
import { promises as dns } from 'node:dns'
import { X509Certificate } from 'node:crypto'
import { noOption } from '../internal/known.js'
import { parseNetwork } from './addresses.js'
import { compileRules } from './rules.js'

const DEFAULT_METHODS = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS']
/** They turn the connection into a tunnel, or echo the headers that middleware added. */
const NEVER_METHODS = ['CONNECT', 'TRACE', 'TRACK']

// setTimeout fires at once for larger values.
const TIMEOUT_MS_MAX = 2 ** 31 - 1
/** Name: default and maximum. */
const LIMITS = {
  maxRedirects: [0, 100],
  timeoutMs: [30_000, TIMEOUT_MS_MAX],
  maxBodyBytes: [16 * 2 ** 20, Number.MAX_SAFE_INTEGER],
  maxRequestBodyBytes: [2 ** 20, Number.MAX_SAFE_INTEGER],
  maxHeaders: [100, Number.MAX_SAFE_INTEGER],
  maxConcurrent: [64, Number.MAX_SAFE_INTEGER]
} as const
export type Limits = Record<keyof typeof LIMITS, number>

const FUNCTIONS = ['policy', 'middleware', 'lookup', 'onRequest', 'onDenied'] as const
const FLAGS = { pinDns: true, allowCompressedResponses: false } as const
const OTHERS = ['rules', 'methods', 'allowPrivate', 'ca']
const KNOWN = new Set<string>([...Object.keys(LIMITS), ...FUNCTIONS, ...Object.keys(FLAGS), ...OTHERS])

/** Options with all defaults filled in. */
export interface Settings<C> {
  readonly policy: SafeFetchPolicy | undefined
  readonly rules: Rules<C>
  readonly middleware: FetchMiddleware<C> | undefined
  readonly lookup: SafeFetchLookup
  readonly onRequest: ((request: SafeFetchRequest) => unknown) | undefined
  readonly onDenied: ((request: SafeFetchRequest, reason: string) => unknown) | undefined
  readonly pinDns: boolean
  readonly allowCompressedResponses: boolean
  readonly methods: ReadonlySet<string>
  readonly allowPrivate: readonly Network[]
  readonly ca: string[] | undefined
  readonly limits: Limits
}

const wrong = (message: string, cause?: unknown): TypeError => new TypeError(`createSafeFetch: ${message}`, { cause })

function checkShape (options: object): void {
  for (const name of Object.keys(options)) if (!KNOWN.has(name)) throw wrong(noOption(name, [...KNOWN]))
  for (const name of FUNCTIONS) {
    const value = (options as Record<string, unknown>)[name]
    if (value !== undefined && typeof value !== 'function') throw wrong(`${name} must be a function`)
  }
}

function readLimit (name: keyof Limits, value: unknown): number {
  const [standard, most] = LIMITS[name]
  if (value === undefined) return standard
  if (typeof value !== 'number' || !Number.isInteger(value) || value < 0 || value > most) {
    throw wrong(`${name} must be an integer from 0 to ${most}`)
  }
  return value
}

function readFlag (name: keyof typeof FLAGS, value: unknown): boolean {
  if (value !== undefined && typeof value !== 'boolean') throw wrong(`${name} must be true or false`)
  return value ?? FLAGS[name]
}

function readList (name: string, value: unknown): string[] {
  if (!Array.isArray(value) || !value.every((item) => typeof item === 'string')) throw wrong(`${name} must be an array of strings`)
  return value
}

function readMethods (value: unknown): Set<string> {
  const methods = value === undefined ? DEFAULT_METHODS : readList('methods', value).map((name) => name.toUpperCase())
  for (const name of methods) {
    if (NEVER_METHODS.includes(name) || !/^[A-Z-]{1,32}$/.test(name)) throw wrong(`methods: ${JSON.stringify(name)} cannot be allowed`)
  }
  return new Set(methods)
}

function readNetworks (value: unknown): Network[] {
  const texts = value === undefined ? [] : readList('allowPrivate', value)
  try {
    return texts.map(parseNetwork)
  } catch (thrown) {
    throw wrong(`allowPrivate: ${(thrown as Error).message}`)
  }
}

function readAuthorities (value: unknown): string[] | undefined {
  if (value === undefined) return undefined
  const authorities = readList('ca', typeof value === 'string' ? [value] : value)
  try {
    for (const text of authorities) new X509Certificate(text)
  } catch (cause) {
    throw wrong('ca must be certificates in PEM', cause)
  }
  return authorities
}

const systemLookup: SafeFetchLookup = (host) => dns.lookup(host, { all: true, verbatim: true })

/** Checks everything once, when the fetch is made. Throws TypeError. */
export function readOptions<C> (options: SafeFetchOptions<C>): Settings<C> {
  if (typeof options !== 'object' || options === null) throw wrong('options with rules or a policy are needed')
  checkShape(options)
  if (options.policy === undefined && options.rules === undefined) throw wrong('rules or a policy are needed')
  const names = Object.keys(LIMITS) as Array<keyof Limits>
  const methods = readMethods(options.methods)
  return {
    policy: options.policy,
    rules: compileRules(options.rules ?? [], methods),
    middleware: options.middleware,
    lookup: options.lookup ?? systemLookup,
    onRequest: options.onRequest,
    onDenied: options.onDenied,
    pinDns: readFlag('pinDns', options.pinDns),
    allowCompressedResponses: readFlag('allowCompressedResponses', options.allowCompressedResponses),
    methods,
    allowPrivate: readNetworks(options.allowPrivate),
    ca: readAuthorities(options.ca),
    limits: Object.fromEntries(names.map((name) => [name, readLimit(name, options[name])])) as Limits
  }
}
