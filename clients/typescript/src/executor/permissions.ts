// The rules of a mount, evaluated without running anything. The daemon has an implementation of its
// own; the same vectors test both (tests/vectors/globs.json).
import { globTest } from './glob.js'
import { ALL_PERMISSIONS, type Permission, type PermissionConfig, type PermissionRule, type PermissionSet } from './types.js'

export class PermissionDeniedError extends Error {
  override readonly name = 'PermissionDeniedError'

  constructor (readonly path: string, readonly operation: Permission) {
    super(`Permission denied: ${operation} on ${path}`)
  }
}

export interface ResolvedPermission extends Required<PermissionSet> {
  /** The rule that decided, if any. */
  matchedRule?: PermissionRule
}

const DEFAULT: Required<PermissionSet> = { read: true, list: true, create: false, modify: false, delete: false }
const EXCLUDE_PRIORITY = 1000

interface Compiled { rule: PermissionRule, priority: number, test: (path: string) => boolean }

function excluded (entry: string): Compiled {
  const patterns = entry.includes('/') ? [entry, `${entry}/**`] : [`**/${entry}`, `**/${entry}/**`]
  const tests = patterns.map(globTest)
  return {
    rule: { pattern: entry, deny: '*', priority: EXCLUDE_PRIORITY },
    priority: EXCLUDE_PRIORITY,
    test: (path) => tests.some((test) => test(path))
  }
}

const namesOf = (list: Permission[] | '*' | undefined): readonly Permission[] => list === '*' ? ALL_PERMISSIONS : list ?? []

export class PermissionResolver {
  private readonly rules: Compiled[]
  private readonly fallback: Required<PermissionSet>

  constructor (config: PermissionConfig = {}, private readonly isAllowingAll = false) {
    const own = (config.rules ?? []).map((rule): Compiled => ({ rule, priority: rule.priority ?? 0, test: globTest(rule.pattern) }))
    // A stable sort: of equal priority the first given stays first.
    this.rules = [...(config.exclude ?? []).map(excluded), ...own].sort((a, b) => b.priority - a.priority)
    this.fallback = { ...DEFAULT, ...config.default }
  }

  static allowAll (): PermissionResolver {
    return new PermissionResolver({}, true)
  }

  static readOnly (): PermissionResolver {
    return new PermissionResolver()
  }

  /** path: below the mount. */
  resolve (path: string): ResolvedPermission {
    if (this.isAllowingAll) return { read: true, list: true, create: true, modify: true, delete: true }
    const below = path.replace(/^\/+/, '')
    const found = this.rules.find(({ test }) => test(below))?.rule
    const resolved: ResolvedPermission = { ...this.fallback }
    if (found === undefined) return resolved
    // In this order: allow wins if a rule both denies and allows.
    for (const name of namesOf(found.deny)) resolved[name] = false
    for (const name of namesOf(found.allow)) resolved[name] = true
    resolved.matchedRule = found
    return resolved
  }

  check (path: string, operation: Permission): boolean {
    return this.resolve(path)[operation]
  }

  /** Throws PermissionDeniedError. */
  assert (path: string, operation: Permission): void {
    if (!this.check(path, operation)) throw new PermissionDeniedError(path, operation)
  }
}
