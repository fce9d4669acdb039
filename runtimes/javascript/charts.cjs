'use strict'
// Charts as data (README.md, Charts): the code builds them itself, and this file checks them.
const ELEMENTS = {
  __proto__: null,
  line: ['points'], scatter: ['points'], bar: ['label', 'value'], histogram: ['bins'], pie: ['label', 'angle'],
  box_and_whisker: ['min', 'firstQuartile', 'median', 'thirdQuartile', 'max'], heatmap: ['values'], superchart: ['type', 'elements']
}
const LISTS = new Set(['points', 'bins', 'values', 'elements'])
const { TypeError } = globalThis
const { isArray } = Array

function check (chart, where) {
  if (chart === null || typeof chart !== 'object') throw new TypeError(`${where}: expected an object with type and elements`)
  const wanted = ELEMENTS[chart.type]
  if (wanted === undefined) throw new TypeError(`${where}.type is ${JSON.stringify(chart.type)}: expected one of ${Object.keys(ELEMENTS).join(', ')}`)
  if (!isArray(chart.elements)) throw new TypeError(`${where}.elements: expected an array`)
  chart.elements.forEach((element, i) => {
    const place = `${where}.elements[${i}]`
    for (const name of wanted) {
      if (element?.[name] === undefined) throw new TypeError(`${place}.${name} is missing: an element of a ${chart.type} has ${wanted.join(', ')}`)
      if (LISTS.has(name) && !isArray(element[name])) throw new TypeError(`${place}.${name}: expected an array`)
    }
    if (chart.type === 'superchart') check(element, place)
  })
}

// The chart with its title as text beside it.
function chartOf (chart) {
  check(chart, 'chart')
  const title = typeof chart.title === 'string' && chart.title !== '' ? ` '${chart.title}'` : ''
  return { 'application/vnd.cloche.chart+json': { title: '', ...chart }, 'text/plain': `<${chart.type} chart${title}>` }
}

module.exports = { chartOf }
