// Says something by WebSocket and prints what comes back: socket.js URL TEXT
const socket = new WebSocket(process.argv[2]);
socket.onopen = () => socket.send(process.argv[3]);
socket.onmessage = (m) => { console.log(m.data); socket.close(); };
socket.onerror = (e) => { console.log("error", e.message, e.error); process.exit(1); };
