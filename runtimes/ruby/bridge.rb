# frozen_string_literal: true

module ClocheAgent
  # The host's functions in the code: calls that wait, several at once from several threads.
  class Bridge
    include Own

    ARGUMENTS_MAX = 1 << 30
    Waiter = Struct.new(:is_done, :value, :error)

    # What a nested declaration becomes: its members are methods.
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
    end

    def connect(channel)
      return if channel.equal?(@channel)
      @channel = channel
      @waiting.clear
      @is_reading = false
    end

    # ---- what is declared ----

    def declare(globals, imports)
      globals.each { |name, declaration| define_global(name, declaration) }
      imports.each { |specifier, declaration| define_import(specifier, declaration) }
    end

    def call(target, args, kwargs)
      waiter = Waiter.new
      number = Pristine.during { ask(target, args, kwargs, waiter) }
      wait_for(waiter)
      raise waiter.error if waiter.error
      waiter.value
    ensure
      @waiting.delete(number) if number
    end

    private

    # At the top level and in every object, like a method of the user's own; never in the place of what all objects have.
    def define_global(name, declaration)
      if constant?(name) && declaration["kind"] != "function"
        put_constant(Object, name, make(declaration, ["global", name]))
      elsif name.start_with?("$")
        put_global(name, make(declaration, ["global", name]))
      elsif Object.method_defined?(name)
        add_member(Code::MAIN.singleton_class, name, declaration, ["global", name])
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

    # Only names that are one: this is the one place where a name becomes program text.
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
      Code::EVAL.bind_call(TOPLEVEL_BINDING, source, "<#{specifier}>", 1)
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

    def ask(target, args, kwargs, waiter)
      encoder = Encoder.new(ARGUMENTS_MAX)
      params = encoder.encode("target" => target, "args" => args, "kwargs" => kwargs)
      raise IOError, "the host cannot be asked from a forked child" unless @channel.mine?
      Thread.handle_interrupt(Object => :never) do
        @lock.synchronize do
          number = @number += 1
          @waiting[number] = waiter
          @channel.send(%({"jsonrpc":"2.0","id":#{number},"method":"bridge","params":) + params + "}", encoder.parts)
          number
        end
      end
    rescue Refused, TooLarge => refusal
      raise TypeError, "#{target.drop(1).join(".")}: #{refusal.message}", cause: nil
    end

    # One of those who wait reads for all; when it is interrupted another goes on.
    def wait_for(waiter)
      until waiter.is_done
        is_mine = @lock.synchronize do
          @news.wait(@lock) if @is_reading && !waiter.is_done
          waiter.is_done || @is_reading ? false : @is_reading = true
        end
        read_one if is_mine
      end
    end

    def read_one
      frame = @channel.read
      # The engine is gone, and the box with it.
      Process.exit!(1) if frame.nil?
      Pristine.during { settle(*frame) }
    ensure
      @lock.synchronize do
        @is_reading = false
        @news.broadcast
      end
    end

    def settle(text, attachments)
      message = JsonText.parse(text)
      waiter = @waiting[message["id"]] or return
      begin
        if message.key?("error")
          waiter.error = error_of(message["error"], attachments)
        else
          waiter.value = Decoder.new(attachments).decode(message["result"]["value"])
        end
      rescue Refused => refusal
        waiter.error = TypeError.new(refusal.message)
      end
      waiter.is_done = true
    end

    def error_of(error, attachments)
      data = error["data"] || {}
      made = HostErrors.make((data["name"] || "Error").to_s, (data["message"] || error["message"]).to_s)
      HostErrors.add_fields(made, Decoder.new(attachments).decode(data["fields"] || {}))
    end
  end
end
