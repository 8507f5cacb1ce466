# A neighbour on the network, which reports when it was reached.
import socket, select
ports = [socket.create_server(("0.0.0.0", port)) for port in (8088, 3128, 9999)]
print("ready", flush=True)
ready = select.select(ports, [], [], 60)[0]
print("reached", flush=True)
