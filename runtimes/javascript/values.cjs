// Values both ways (spec/values.md). A function of `host`, run in the agent's own realm; it decodes to the main
// realm's classes, and reads values with its own, untouched ones. `makeWire` is wire.cjs. `host` may lack `RegExp`
// and the classes of errors (a value that needs them is refused, or an Error), `classes` and `encodeClass`
// (spec/values.md, class).
'use strict'
const { TypeError, RangeError, types } = host
const errors = {
  Unsendable: TypeError, Malformed: TypeError, Unmakeable: TypeError,
  Oversize: RangeError, FrameTooLarge: RangeError, BadFrame: RangeError
}
const wire = makeWire({ ...host, errors, verb: 'return' })
const { attempt, has, refuse } = wire

const ITEMS_MAX = 1000000
const isIterator = (value) =>
  types.isGeneratorObject(value) || (hasMethod(value, 'next') && hasMethod(value, Symbol.iterator))
// The user's code runs here, and an exception of it is the call's.
function collected (path, iterator) {
  const items = []
  for (let step = iterator.next(); !step.done; step = iterator.next()) {
    if (typeof step.then === 'function') {
      refuse(path, 'asynchronous iterator inside a value cannot be sent: await its items')
    }
    if (items.length === ITEMS_MAX) {
      refuse(path, `iterator of more than ${ITEMS_MAX} items cannot be sent: return an array of those that are needed`)
    }
    items.push(step.value)
  }
  return items
}

const arrays = host.Array.prototype
// True when a class has the method; one that somebody put on Object.prototype or Array.prototype is no class's.
function hasMethod (value, name) {
  const { getPrototypeOf } = Object
  for (let owner = getPrototypeOf(value); owner && getPrototypeOf(owner) !== null; owner = getPrototypeOf(owner)) {
    if (owner === arrays) return false
    if (Object.prototype.hasOwnProperty.call(owner, name)) return typeof owner[name] === 'function'
  }
  return false
}

const saysItsForm = (value) => has(value, 'toJSON') ? typeof value.toJSON === 'function' : hasMethod(value, 'toJSON')
const isBlank = (value) => Object.keys(value).length === 0

class Encoder extends wire.Encoder {
  // A proxy is read through its traps, as JSON.stringify does; the rich mode copies, and a trap's answer is no copy.
  readsProxies () { return this.numbers === undefined }

  // JSON leaves these members out, too.
  isNoData (member) {
    return this.numbers === undefined && (typeof member === 'function' || typeof member === 'symbol')
  }

  classOf (value, path) { return host.encodeClass && attempt(path, () => host.encodeClass(value), refuse) }

  itemsOf (value, path) {
    if (this.numbers) return undefined
    if (isIterator(value)) return collected(path, value)
    // Without properties of its own: Headers, FormData, wrappers of private fields.
    return isBlank(value) && hasMethod(value, Symbol.iterator) ? collected(path, value[Symbol.iterator]()) : undefined
  }

  other (value, path, depth) {
    const replaced = this.numbers ? value : this.replaced(value)
    return replaced === value ? super.other(value, path, depth) : this.encode(replaced, path, depth - 1)
  }

  // The result of an object's toJSON stands in its place, as JSON.stringify has it; toJSON of the result is not called.
  replaced (value) {
    const asked = this.said === value
    this.said = undefined
    if (asked || !saysItsForm(value)) return value
    return (this.said = value.toJSON(`${this.key}`))
  }
}

function encode (value, limit, references = false) {
  const attachments = new wire.Attachments()
  return { value: wire.encodeWith(Encoder, value, { attachments, limit, references }), attachments: attachments.parts }
}

// Values of one frame are decoded with one `ranges`, for their attachments may not overlap.
const decode = (value, attachments, ranges = []) => new wire.Decoder(attachments, ranges).whole(value)

return { encode, decode, FrameReader: wire.FrameReader, frameHead: wire.frameHead }
