// Checks a document against the rules of OpenAPI 3.1, with all references.
import SwaggerParser from '@apidevtools/swagger-parser'

const { paths } = await SwaggerParser.validate(process.argv[2])
console.log(Object.keys(paths).length)
