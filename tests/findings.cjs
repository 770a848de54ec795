// The redlock library of node, as its users call it: acquire, extend, release, several resources,
// one that waits. There must be no finding. NODE_PATH names where it is installed.
const Redis = require("ioredis");
const Redlock = require("redlock");
const assert = require("assert");

(async () => {
  const clients = [new Redis(process.env.REDIS_URL), new Redis(process.env.REDIS_URL)];
  const [one, two] = clients.map((client) => new Redlock([client], { retryCount: 50, retryDelay: 5, retryJitter: 5 }));
  const never = new Redlock([clients[1]], { retryCount: 0 });
  let lock = await one.lock("redlock:a", 5000);
  await assert.rejects(never.lock("redlock:a", 5000));
  lock = await lock.extend(8000);
  const waits = two.lock("redlock:a", 5000);
  await new Promise((resolve) => setTimeout(resolve, 20));
  await lock.unlock();
  await (await waits).unlock();
  const several = await one.lock(["redlock:b", "redlock:c"], 5000);
  await assert.rejects(never.lock(["redlock:c", "redlock:d"], 5000));
  await several.unlock();
  for (let i = 0; i < 3; i++) await (await two.lock("redlock:b", 5000)).unlock();
  // Of three nodes two do not answer: what was won here is given back, and tried for again.
  const dead = [1, 2].map(() => new Redis({ port: 1, host: "127.0.0.1", lazyConnect: true, retryStrategy: null, enableOfflineQueue: false, maxRetriesPerRequest: 0 }));
  dead.forEach((client) => client.on("error", () => {}));
  const minority = new Redlock([clients[0], ...dead], { retryCount: 2, retryDelay: 2, retryJitter: 1 });
  minority.on("clientError", () => {});
  await assert.rejects(minority.lock("redlock:minority", 5000));
  clients.forEach((client) => client.disconnect());
  console.log("as it should be");
})().catch((error) => {
  console.error(error);
  process.exit(1);
});
