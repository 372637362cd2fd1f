// Prints status and body of an address: fetch.js URL
const answer = await fetch(process.argv[2]);
console.log(answer.status, await answer.text());
