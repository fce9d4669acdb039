# frozen_string_literal: true

module ClocheAgent
  # The host's functions in the code, and other requests to the engine: blocking calls, several at
  # once from several threads.
  class Bridge
    include Own

    ARGUMENTS_MAX = 1 << 30
    # reader: maps the response's message and attachments to [value, error].
    Waiter = Struct.new(:reader, :is_done, :value, :error)
    # Ways to wait: within the user's code, and in the agent's own code between cells.
    THEIRS = ->(wait) { Border.theirs(&wait) }
    IDLE = lambda do |wait|
      Pristine.idle(&wait)
    rescue Exception
      nil # the user's IO.select failed
    end

    # The value of a nested declaration: its members are methods.
    class HostObject
      def initialize(name)
        @name = name
      end

      def inspect
        "#<host #{@name}>"
      end
      alias to_s inspect
    end

    def initialize
      @number = 0
      @waiting = {}
      @lock = Thread::Mutex.new
      @news = Thread::ConditionVariable.new
      @requests = []
    end

    def connect(channel)
      return if channel.equal?(@channel)
      @channel = channel
      @waiting.clear
      @requests.clear
      @is_reading = @is_closed = false
    end

    # ---- declarations ----

    def declare(globals, imports)
      globals.each { |name, declaration| define_global(name, declaration) }
      imports.each { |specifier, declaration| define_import(specifier, declaration) }
    end

    def call(target, args, kwargs)
      params, parts = Pristine.during { arguments(target, args, kwargs) }
      request("bridge", params, parts, ->(message, attachments) { result(message, attachments) })
    end

    # params: JSON text. Returns the value that the reader makes of the response.
    def request(method, params, parts, reader)
      waiter = Waiter.new(reader)
      Border.ours { ask_and_wait(method, params, parts, waiter) }
      raise waiter.error if waiter.error
      waiter.value
    end

    # In a context: the next frame that is neither a response nor read by a waiting thread. As
    # Channel#read, plus the message if it parses.
    def next_request
      advance(IDLE) { !@requests.empty? || @is_closed } while @requests.empty? && !@is_closed
      @requests.shift
    end

    # Send a context's frame, whole among those of other threads.
    def send_frame(text, parts = [])
      Thread.handle_interrupt(Object => :never) { @lock.synchronize { @channel.send(text, parts) } }
    end

    private

    # Define at the top level and in every object, like a user's method; never override a method that all objects have.
    def define_global(name, declaration)
      if constant?(name) && declaration["kind"] != "function"
        put_constant(Object, name, make(declaration, ["global", name]))
      elsif name.start_with?("$")
        put_global(name, make(declaration, ["global", name]))
      elsif Object.method_defined?(name)
        add_member(Call::MAIN.singleton_class, name, declaration, ["global", name])
      else
        add_member(Object, name, declaration, ["global", name])
        Object.__send__(:private, name)
      end
    end

    def constant?(name)
      name.match?(/\A[A-Z][A-Za-z0-9_]*\z/)
    end

    def put_constant(owner, name, value)
      owner.__send__(:remove_const, name) if owner.const_defined?(name, false)
      owner.const_set(name, value)
    end

    # Only valid names: this is the one place where a name becomes program text.
    def put_global(name, value)
      is_name = name.match?(/\A\$[A-Za-z_][A-Za-z0-9_]*\z/)
      raise NameError, "#{name.inspect} cannot be the name of a global variable" unless is_name
      eval("->(value) { #{name} = value }", TOPLEVEL_BINDING).call(value)
    end

    def make(declaration, target)
      case declaration["kind"]
      when "function" then function(target)
      when "value" then declaration["value"]
      when "object" then object(declaration["members"], target)
      else raise TypeError, "the declaration #{declaration["kind"].inspect} of #{target[1..-1].join(".")} has no meaning in Ruby"
      end
    end

    def object(members, target)
      host = HostObject.new(target[-1])
      members.each { |name, member| add_member(host.singleton_class, name, member, [*target, name]) }
      host
    end

    def add_member(owner, name, declaration, target)
      made = make(declaration, target)
      if declaration["kind"] == "function"
        owner.define_method(name, &made)
      else
        owner.define_method(name) { made }
      end
    end

    def function(target)
      bridge = self
      lambda do |*args, **kwargs|
        bridge.call(target, args, kwargs)
      end
    end

    # `require 'geo/point'` makes the constant Geo::Point: a module with the members as its functions.
    def define_import(specifier, declaration)
      is_there = false
      Hooks.import(specifier) do
        next false if is_there
        is_there = true
        declaration.key?("source") ? run_source(specifier, declaration["source"]) : add_module(specifier, declaration["members"])
        true
      end
    end

    def run_source(specifier, source)
      Call::EVAL.bind_call(TOPLEVEL_BINDING, source, "<#{specifier}>", 1)
    end

    def add_module(specifier, members)
      names = specifier.split("/").map { |part| module_name(part) }
      raise LoadError, "#{specifier.inspect} gives no name for a module" unless names.any? && names.all? { |name| constant?(name) }
      outer = names[0..-2].inject(Object) { |owner, name| inner_module(owner, name) }
      if outer.const_defined?(names[-1], false)
        raise LoadError, "#{names.join("::")}, the module for #{specifier.inspect}, is already defined"
      end
      fill_module(outer.const_set(names[-1], Module.new), members, specifier)
    end

    def module_name(part)
      part.split(/[^A-Za-z0-9]+/).map { |word| word[0, 1].upcase + word[1..-1].to_s }.join
    end

    def inner_module(owner, name)
      owner.const_defined?(name, false) ? owner.const_get(name, false) : owner.const_set(name, Module.new)
    end

    def fill_module(made, members, specifier)
      members.each do |name, member|
        target = ["import", specifier, name]
        if constant?(name) && member["kind"] != "function"
          made.const_set(name, make(member, target))
        else
          add_member(made.singleton_class, name, member, target)
        end
      end
    end

    # ---- calls ----

    def arguments(target, args, kwargs)
      encoder = Encoder.new(ARGUMENTS_MAX)
      [encoder.encode("target" => target, "args" => args, "kwargs" => kwargs), encoder.parts]
    rescue Refused, TooLarge => refusal
      raise TypeError, "#{target.drop(1).join(".")}: #{refusal.message}", cause: nil
    end

    def ask_and_wait(method, params, parts, waiter)
      number = ask(method, params, parts, waiter)
      until waiter.is_done
        advance(THEIRS) { waiter.is_done }
        Border.theirs { sleep } if @is_closed # the main thread ends the process
      end
    ensure
      @waiting.delete(number)
    end

    def ask(method, params, parts, waiter)
      raise IOError, "the host cannot be asked from a forked child" unless @channel.mine?
      @lock.synchronize do
        number = @number += 1
        @waiting[number] = waiter
        @channel.send(%({"jsonrpc":"2.0","id":#{number},"method":"#{method}","params":) + params + "}", parts)
        number
      end
    end

    # One of the waiting threads reads for all; when it is interrupted another goes on. The block is
    # true if there is nothing to wait for.
    def advance(waiting)
      is_mine = @lock.synchronize do
        waiting.call(-> { @news.wait(@lock) }) if @is_reading && !yield
        yield || @is_reading ? false : @is_reading = true
      end
      read_one(waiting) if is_mine
    end

    def read_one(waiting)
      watch_forks if waiting.equal?(IDLE) && Serve.forks
      frame = @channel.read(waiting)
      frame ? settle(*frame) : closed
    ensure
      @lock.synchronize do
        @is_reading = false
        @news.broadcast
      end
    end

    # Reap a context's forks while it is idle: their boxes can end then.
    def watch_forks
      forks, number, is_there = Serve.forks, @channel.number, @channel.held? ? 1 : 0
      until is_there == 1
        IDLE.call(-> { is_there = forks.idle(number) })
        @lock.synchronize { forks.reap }
      end
    end

    # The engine has exited, and the box with it. A context between cells ends in order, on whichever thread notices.
    def closed
      Process.exit!(1) if Border.running? || !Serve.context
      @is_closed = true
    end

    def settle(text, attachments)
      message = parse(text)
      return @requests << [text, attachments, message] unless Hash === message && !message.key?("method")
      waiter = @waiting[message["id"]] or return
      begin
        waiter.value, waiter.error = waiter.reader.call(message, attachments)
      rescue Refused => refusal
        waiter.error = TypeError.new(refusal.message)
      end
      waiter.is_done = true
    end

    # nil if invalid: the code that answers the request reports the error.
    def parse(text)
      JsonText.parse(text)
    rescue JsonText::Invalid
      nil
    end

    def result(message, attachments)
      return nil, error_of(message["error"], attachments) if message.key?("error")
      [Decoder.new(attachments).decode(message["result"]["value"]), nil]
    end

    def error_of(error, attachments)
      data = error["data"] || {}
      made = HostErrors.make((data["name"] || "Error").to_s, (data["message"] || error["message"]).to_s)
      HostErrors.add_fields(made, Decoder.new(attachments).decode(data["fields"] || {}))
    end
  end
end
