"""A service for tests. It answers what the file `answer` says, ends with the
code in the file `exit`, and writes down in `seen` what comes to it."""
import http.server, os, signal, socketserver, sys, threading, time

def note(word):
    with open("seen", "a") as f:
        f.write(word + "\n")

class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        if self.path == "/health":
            self.send_response(200 if os.path.exists("healthy") else 503)
            self.end_headers()
            return
        note("asked")
        with open("answer") as f:
            status, _, body = f.read().partition(" ")
        self.send_response(int(status))
        self.send_header("Content-Type", "application/json")
        self.end_headers()
        self.wfile.write(body.encode())

    def log_message(self, *args):
        pass

class Server(socketserver.ThreadingMixIn, socketserver.UnixStreamServer):
    daemon_threads = True

def term(*_):
    note("term")
    os._exit(0)

signal.signal(signal.SIGTERM, term)
note("started")
if os.path.exists("exit-at-once"):
    print("giving up", file=sys.stderr)
    sys.exit(int(open("exit-at-once").read()))
server = Server(os.environ["WEIR_SOCKET"], Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
while not os.path.exists("exit"):
    time.sleep(0.02)
print("giving up", file=sys.stderr)
sys.stderr.flush()
os._exit(int(open("exit").read()))
