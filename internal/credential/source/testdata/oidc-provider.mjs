// A real OAuth2 server for a test: oidc-provider, on loopback.
// node oidc-provider.mjs NODE_MODULES KEY CERT
import { createServer } from 'node:https';
import { readFileSync } from 'node:fs';

const [modules, key, cert] = process.argv.slice(2);
const { default: Provider } = await import(`${modules}/oidc-provider/lib/index.js`);

const client = (client_id, token_endpoint_auth_method) => ({
  client_id, client_secret: 'cl1ent s3cr3t+%', token_endpoint_auth_method,
  grant_types: ['client_credentials'], redirect_uris: [], response_types: [], scope: 'read write',
});

let handle = (_, res) => { res.writeHead(503).end(); };
const server = createServer({ key: readFileSync(key), cert: readFileSync(cert) }, (req, res) => handle(req, res));
server.listen(0, '127.0.0.1', () => {
  const issuer = `https://127.0.0.1:${server.address().port}`;
  const provider = new Provider(issuer, {
    clients: [client('id:1', 'client_secret_basic'), client('id:2', 'client_secret_post')],
    scopes: ['read', 'write', 'admin'],
    ttl: { ClientCredentials: 600 },
    features: {
      clientCredentials: { enabled: true }, devInteractions: { enabled: false },
      introspection: { enabled: true }, revocation: { enabled: true },
    },
  });
  handle = provider.callback();
  process.stdout.write(`${issuer}\n`);
});
