// The suite's upstream listens on every address of the machine; a test's must be reached from here alone.
const { Server } = require('node:net')
const listen = Server.prototype.listen
Server.prototype.listen = function (port, ...rest) {
  return listen.call(this, port, '127.0.0.1', ...rest)
}
