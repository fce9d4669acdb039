# frozen_string_literal: true

module ClocheAgent
  # Contexts: a persistent interpreter whose cells run one after another at Ruby's top level (spec/agent.md, README.md).
  class Context
    include Own

    STORE_BYTES = 16 << 20
    SET = Binding.instance_method(:local_variable_set)
    # Later output takes another way, and must not overtake: so displays are requests. The content
    # of the response is ignored.
    FORGIVING = ->(_message, _attachments) { [nil, nil] }
    NO_INPUT = "can only be asked for while a cell runs, by the process of the cell"

    # scope: the binding cells run in.
    def initialize(channel, bridge, scope)
      @scope = scope
      @cells = Serve.set_up ? {Serve.set_up => true} : {} # a caller's set-up is shown like a cell
      @store_bytes = STORE_BYTES
      connect(channel, bridge)
    end

    def connect(channel, bridge)
      @channel, @bridge = channel, bridge
    end

    # True if a file of this name is a cell.
    def cell?(name)
      @cells.key?(name)
    end

    # The code of a cell, or nil.
    def source(name)
      code = @cells[name]
      String === code ? code : nil
    end

    # ---- a cell ----

    # The response tree.
    def run(request)
      error = begin
        Border.begin_cell
        Packages.look
        execute(request)
        nil
      rescue Exception => raised
        raised
      end
      Serve.settle_down
      Serve.child_ended(error) unless @channel.mine?
      error ? {"status" => "error", "error" => describe(error)} : {"status" => "ok"}
    ensure
      Border.end_cell
      Serve.flush
    end

    # ---- output and input of a cell ----

    def display(data, metadata, is_result: false, id: nil, is_update: false)
      Serve.flush
      return print(data["text/plain"]) unless may_tell?
      text, parts = Displays.packed(data, metadata, is_result, id, is_update, @store_bytes)
      is_result ? tell("display", text, parts) : @bridge.request("display", text, parts, FORGIVING)
    end

    def clear(is_waiting)
      Serve.flush
      @bridge.request("clear", %({"wait":#{is_waiting}}), [], FORGIVING) if may_tell?
    end

    # The line, without its newline.
    def input(prompt, is_secret)
      raise EOFError, "input #{NO_INPUT}" unless may_tell?
      Serve.flush
      params = Encoder.new(0).encode("prompt" => Errors.clean(prompt), "password" => is_secret)
      @bridge.request("input", params, [], method(:read_line))
    end

    private

    def execute(request)
      code, count, is_silent = request.values_at("code", "count", "silent")
      name = request["filename"] || "Cell In[#{count}]"
      @cells[name] = code
      @store_bytes = request["storeBytes"]
      is_quiet = is_silent || code.rstrip.end_with?(";")
      Call.name_program(code, name)
      Serve.for_user do
        value = contained { Call::EVAL.bind_call(@scope, code, name, 1) }
        Border.ours { give(value, is_quiet) } unless is_silent
      end
    end

    # Since Ruby 3.3 a `return` outside of methods leaves every frame below it, and would end the
    # agent: before, it raised this error.
    def contained
      is_over = false
      value = yield
      is_over = true
      value
    ensure
      raise LocalJumpError, "unexpected return" if !is_over && NilClass === $!
    end

    def give(value, is_quiet)
      SET.bind_call(@scope, :_, value)
      return if is_quiet || NilClass === value
      display(*Formats.of(value), is_result: true)
    end

    # The user's own `message` may take forever, so allow interrupts.
    def describe(error)
      Border.open { Errors.in_cells(error, @cells) }
    rescue Exception
      Serve.settle_down
      Errors.bare(error)
    end

    # False for threads between cells and for forked children: their messages have no receiver.
    def may_tell?
      Border.running? && @channel.mine?
    end

    def tell(method, params, parts)
      @bridge.send_frame(%({"jsonrpc":"2.0","method":"#{method}","params":) + params + "}", parts)
    end

    def print(text)
      Border.theirs { $stdout.write("#{text}\n") } if text
    end

    # [value, error]
    def read_line(message, _attachments)
      value = Hash === message["result"] ? message["result"]["value"] : nil
      return [value, nil] if String === value
      error = Hash === message["error"] ? message["error"] : {}
      said = Hash === error["data"] ? error["data"]["message"] : nil
      [nil, EOFError.new((said || error["message"] || "the answer is no text").to_s)]
    end
  end
end
