'use strict'
// The JavaScript agent is main.cjs. This file and old.cjs use JavaScript that any Node can parse:
// one that is too old has to report that.
const LEAST = 18

if (parseInt(process.versions.node, 10) >= LEAST) require('./main.cjs')
else require('./old.cjs')(LEAST)
